package ipc

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
)

// HomeEnv names the environment variable that overrides the default home.
const HomeEnv = "PEDELEC_HOME"

// homeName is the folder below the user's home directory.
const homeName = ".pedelec"

// Home returns the absolute path of the folder in which the daemon keeps its
// files: flag if it is not empty, else PEDELEC_HOME, else ~/.pedelec. Where HOME
// is unset, as under some service managers, the user database is asked.
func Home(flag string) (string, error) {
	if flag != "" {
		return filepath.Abs(flag)
	}
	if env := os.Getenv(HomeEnv); env != "" {
		return filepath.Abs(env)
	}
	base, err := os.UserHomeDir()
	if err == nil && base != "" {
		return filepath.Join(base, homeName), nil
	}
	u, lookupErr := user.Current()
	if lookupErr != nil || u.HomeDir == "" {
		return "", errors.Join(errors.New("no home directory is known; set "+HomeEnv+" or use --home"), err, lookupErr)
	}
	return filepath.Join(u.HomeDir, homeName), nil
}
