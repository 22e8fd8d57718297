// Package settings is the user's choices in <home>/settings.json: read fresh
// whenever the file changed, written whole or not at all.
//
// The file has the shape of the Desktop app's, so that one file serves both,
// and some members of this daemon's own:
//
//	{
//	  "defaultProvider": "codex",                     code or null
//	  "providerSettings": {
//	    "codex": {                                    also antigravity, opencode, cursor, claude
//	      "effortsArgs": {"default": [], "low": [], "high": []},
//	      "command": ["prog", "arg"],                 replaces the program that is found
//	      "env": {"NAME": "value"},                   added to its environment
//	      "permission": "workspace"                   or read-only, full
//	    },
//	    "ollama": {"baseUrl": "http://127.0.0.1:11434", "timeoutMs": 120000,
//	               "apiKey": "", "tavilyApiKey": "", "effortsArgs": {}}
//	  },
//	  "wizardMetadata": {},                           the Desktop app's, kept
//	  "requireToken": false,
//	  "allowedOrigins": ["https://app.example"],
//	  "pickerCommand": ["prog", "arg"],               prints the path of the chosen folder, or nothing
//	  "retention": {"journalEvents": 10000, "journalBytes": 16777216,
//	                "endedThreadDays": 30, "idleThreadDays": 30, "storeBytes": 4294967296},
//	  "watchdogs": {"silenceSeconds": 1800, "sessionStartSeconds": 60}
//	}
//
// Every member may be absent or null. Unknown members are ignored and survive
// a write.
//
// It owns the file, its defaults, the rules for effort arguments, and the check
// order of an update. It never decides whether a program exists, and never logs
// or prints a value.
//
// Concurrency: all methods of [File] may be called at once. Reading takes no
// lock; updates wait for each other.
//
// Failure model: a single bad entry becomes a [Problem] with its path and stops
// only what needs that entry; where a bad entry guards something, the narrowest
// reading holds (permission read-only, requireToken true). A file that cannot
// be read or is no JSON object leaves the last good settings in force, or the
// defaults when there were none; only DefaultProvider and Update then answer
// SETTINGS_READ_FAILED. A write goes to a temporary file that is forced to disk
// and renamed, so that a crash leaves the old file or the new one.
package settings
