package main

// browserCommand returns the command that opens a page.
func browserCommand(url string) []string { return []string{"/usr/bin/open", url} }
