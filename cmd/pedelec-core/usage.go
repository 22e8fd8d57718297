package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// suggestionDistance is how many letters a word may be away from the command that
// was meant.
const suggestionDistance = 2

// usageError marks a command line that is wrong.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// printUsage shows how a command is used, in two lines: a long text would push
// the message that stands above it out of sight.
func (a *app) printUsage(cmd *cobra.Command) {
	line := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		line = cmd.CommandPath() + " COMMAND [flags]"
	}
	fmt.Fprintf(a.stderr, "\nUsage: %s\nSee: %s --help\n", line, cmd.CommandPath())
}

// takeWhatUseSays makes each command take the arguments that its Use line shows,
// and say what is wrong with others.
func takeWhatUseSays(cmd *cobra.Command) {
	if !cmd.DisableFlagParsing {
		cmd.Args = checkArgs
	}
	for _, sub := range cmd.Commands() {
		takeWhatUseSays(sub)
	}
}

// checkArgs compares arguments with a Use line: NAME stands for one, NAME... for
// one or more, and what is in brackets may be left out.
func checkArgs(cmd *cobra.Command, args []string) error {
	if cmd.HasSubCommands() {
		return checkSubcommand(cmd, args)
	}
	names := strings.Fields(cmd.Use)[1:]
	for i, name := range names {
		if i >= len(args) && !strings.HasPrefix(name, "[") {
			return usagef("%s is missing", strings.TrimSuffix(name, "..."))
		}
		if strings.HasSuffix(strings.TrimSuffix(name, "]"), "...") {
			return nil
		}
	}
	if len(args) > len(names) {
		return usagef("%q is one argument too many", args[len(names)])
	}
	if len(cmd.ValidArgs) > 0 && !slices.Contains(cmd.ValidArgs, args[0]) {
		return usagef("%s is one of %s, not %q", cmd.Name(), strings.Join(cmd.ValidArgs, ", "), args[0])
	}
	return nil
}

func checkSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = suggestionDistance
	hint := ""
	if meant := cmd.SuggestionsFor(args[0]); len(meant) > 0 {
		hint = "; did you mean " + strings.Join(meant, " or ") + "?"
	}
	return usagef("unknown command %q for %q%s", args[0], cmd.CommandPath(), hint)
}

// addHelpCommand adds cobra's help command, but an unknown topic is an error.
func addHelpCommand(root *cobra.Command) {
	root.SetHelpCommandGroupID(groupCare)
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			cmd.Args = func(_ *cobra.Command, topic []string) error {
				found, rest, _ := root.Find(topic)
				return checkSubcommand(found, rest)
			}
		}
	}
}

// explainFlag says in plain words what is wrong with a flag.
func explainFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var wrong *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return explainUnknownFlag(cmd, unknown)
	case errors.As(err, &bare):
		value, _ := pflag.UnquoteUsage(bare.GetFlag())
		return usagef("--%s needs a value: --%[1]s %s", bare.GetFlag().Name, value)
	case errors.As(err, &wrong) && errors.Is(err, strconv.ErrRange):
		return usagef("--%s cannot be %s, which is too large or too small", wrong.GetFlag().Name, wrong.GetValue())
	case errors.As(err, &wrong):
		return usagef("--%s is %s, not %q", wrong.GetFlag().Name, kindOfValue(wrong.GetFlag()), wrong.GetValue())
	}
	return usageError{err}
}

func explainUnknownFlag(cmd *cobra.Command, unknown *pflag.NotExistError) error {
	if letters := unknown.GetSpecifiedShortnames(); letters != "" {
		return usagef("unknown flag: -%s", unknown.GetSpecifiedName())
	}
	name := "--" + unknown.GetSpecifiedName()
	if name == backgroundArg && !cmd.HasParent() {
		return usagef("%s stands alone on the command line; with anything else it is: pedelec-core serve %[1]s", backgroundArg)
	}
	return usagef("unknown flag: %s", name)
}

// kindOfValue says what a flag takes.
func kindOfValue(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "true or false"
	case "uint64", "uint16":
		return "a whole number, 0 or more"
	case "int":
		return "a whole number"
	}
	return f.Value.Type()
}
