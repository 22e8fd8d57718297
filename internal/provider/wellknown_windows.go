package provider

import "path/filepath"

// wellKnown returns folders in which agents are installed although no PATH names
// them, best first.
func wellKnown(home string) []string {
	var dirs []string
	for _, rel := range []string{
		`.local\bin`, `.opencode\bin`, `AppData\Roaming\npm`, `AppData\Local\Programs\OpenAI\Codex\bin`, `AppData\Local\agy\bin`,
	} {
		dirs = append(dirs, filepath.Join(home, rel))
	}
	return dirs
}
