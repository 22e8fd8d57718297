// Package js holds the JavaScript module for web pages, so that a page which this
// program serves can load it. It contains no Go code.
package js

import "embed"

// Files are the module's files, by name.
//
//go:embed errors.js link.js assets.js tools.js session.js pedelec.js
var Files embed.FS
