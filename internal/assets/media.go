package assets

import (
	"path"
	"strings"
)

// unknownMedia is the type of what is not in the table.
const unknownMedia = "application/octet-stream"

// mediaTypes is the one table of media types, for tickets and responses.
var mediaTypes = map[string]string{
	".txt":  "text/plain",
	".md":   "text/plain",
	".csv":  "text/plain",
	".json": "application/json",
	".pdf":  "application/pdf",
	".png":  "image/png",
	".jpg":  "image/jpeg",
	".jpeg": "image/jpeg",
	".webp": "image/webp",
	".glb":  "model/gltf-binary",
	".html": "text/html",
}

// mediaType returns the type of a file by its extension, in any case.
func mediaType(name string) string {
	if t, ok := mediaTypes[strings.ToLower(path.Ext(name))]; ok {
		return t
	}
	return unknownMedia
}
