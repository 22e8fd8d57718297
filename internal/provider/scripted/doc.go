// Package scripted is an agent without a model: a real program that speaks the
// Agent Client Protocol (version 1) on its standard streams and does what its
// prompt says. The demo and the end-to-end tests run on it through the same
// code as on any other agent.
//
// A prompt whose first line is a command is a script: one command a line, or
// several on a line separated by " ; ". Lines of a script that are no command
// are said as they are. Any other prompt is answered with its own text, in a
// few chunks of one message. A duration is written like 250ms or 2s.
//
//	echo TEXT              says TEXT
//	message A | B          says A and B as two messages
//	stream N [every D] [of B]
//	                       says the numbers 1 to N, one a chunk, each padded to B bytes
//	wait D                 is silent for D
//	hang                   is silent until the turn is cancelled
//	hang-hard              is silent for ever, cancelled or not
//	slow-cancel D          is silent until D after the turn was cancelled
//	fail TEXT              ends the turn with the error TEXT
//	refuse                 ends the turn with the stop reason refusal
//	crash                  dies at once, as by kill -9
//	exit N                 exits at once with status N
//	ignore-term            ignores TERM, INT and the end of its input from now on
//	grandchild             starts a child that keeps the output open; says its pid
//	detached               starts a child in a session of its own; says its pid
//	stderr N               writes N bytes of lines to standard error
//	bigline N              writes a line of N bytes that is no frame
//	banner                 writes a short line that is no frame
//	halfline               writes half of a frame and exits
//	split                  writes a frame whose code points are split across writes
//	usage N                reports N tokens for this turn
//	tool TITLE             shows a tool call of its own, begun and completed
//	call TOOL JSON         calls a frontend tool over MCP; says the answer
//	call-silent TOOL JSON  does so without showing the call first
//	call-parallel N TOOL   makes N calls at once, with {"n":1} to {"n":N}, or with the JSON
//	                       behind TOOL if there is one; says the answers, a line each
//	cli TOOL JSON          calls a frontend tool by the command that the host block tells;
//	                       says what that printed
//	cli-spec TOOL          looks a frontend tool up by its command; says what that printed
//	permission PATH        asks whether it may edit PATH; says the answer
//	permission-shell CMD   asks whether it may run CMD; says the answer
//	write PATH TEXT        writes TEXT into a file below the session's folder
//	whoami                 says session, turn, folder, model, pid and whether it was instructed
//	env NAME               says the value of an environment variable
//	forget                 makes the session unknown to the next process or resume
//	prepare-wrong          acknowledges the next preparation with other words
//	prepare-fail           fails the next preparation
//	prepare-hang           never acknowledges the next preparation
//
// TOOL is a name as the host block or the tool server tells it, and JSON an object
// on one line. An answer that is an error is said behind "tool error: ". A session
// that was given no tool server uses that of another session in its folder, as
// OpenCode does.
//
// A prompt that asks for PEDELEC_PREPARED gets exactly that as its answer. A
// host block in front of the user's text ([Pedelec Host NAME] to [/Pedelec Host
// NAME], any NAME, then [User Message]) is noted and not repeated.
// Text that begins with / ends its turn without a word, as a command of the
// program's own does elsewhere.
//
// Environment:
//
//	PEDELEC_SCRIPTED_STATE    folder of the sessions; default: one a user below the temporary folder
//	PEDELEC_SCRIPTED_PREPARE  wrong, fail or hang: how preparations are answered
//	PEDELEC_SCRIPTED_INIT     hang, fail, exit, auth (a login is missing), old (another
//	                          protocol version) or wait:D: how initialize is answered
//	PEDELEC_SCRIPTED_FAILPOINTS
//	                          where it dies, in the form of PEDELEC_FAILPOINTS; read by
//	                          the program that runs it
//
// A file .pedelec-scripted-prepare in a session's folder that holds one of the
// words of PEDELEC_SCRIPTED_PREPARE goes before that variable.
//
// It owns its session files: one a session, a line for each thing said, so that
// a new process continues a conversation that another one left by kill -9. It
// talks to no network but the tool servers that it is told of, and starts no
// program but itself and the commands of the host block.
//
// Concurrency: each prompt runs in a goroutine of its own; a session takes one
// prompt at a time. One goroutine writes to standard output.
//
// Failure model: it answers what it cannot do with a JSON-RPC error and goes
// on. The end of its input ends it at once, with a turn or without.
package scripted
