package acp

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pedelec/pedelec-core/internal/provider/jsonrpc"
)

// updateKind is what a session/update means to us.
type updateKind uint8

const (
	otherUpdate   updateKind = iota
	chunkUpdate              // a fragment of the assistant's text
	messageUpdate            // the assistant's text, complete
	toolUpdate               // a tool call begins
)

// update is a session/update. Its values are views of the frame, except Text.
type update struct {
	session   []byte
	kind      updateKind
	messageID []byte // nil when the agent gives none
	text      string
}

// decodeUpdate reads the params of a session/update by walking them: this is the
// path of every chunk of text, and only the text is copied.
func decodeUpdate(params jsontext.Value) (update, error) {
	var u update
	var body jsontext.Value
	var err error
	for name, value := range jsonrpc.Members(params, &err) {
		switch string(name) {
		case "sessionId":
			u.session = plainString(value)
		case "update":
			body = value
		}
	}
	if err != nil {
		return update{}, err
	}
	var content jsontext.Value
	for name, value := range jsonrpc.Members(body, &err) {
		switch string(name) {
		case "sessionUpdate":
			u.kind = kindOf(plainString(value))
		case "messageId":
			u.messageID = plainString(value)
		case "content":
			content = value
		}
	}
	if err != nil || (u.kind != chunkUpdate && u.kind != messageUpdate) {
		return u, err
	}
	u.text, err = decodeText(content)
	return u, err
}

func kindOf(word []byte) updateKind {
	switch string(word) {
	case "agent_message_chunk", "assistant_message_chunk":
		return chunkUpdate
	case "agent_message", "agent_message_complete":
		return messageUpdate
	case "tool_call":
		return toolUpdate
	}
	return otherUpdate
}

// decodeText returns the text of a content block, "" for one of another type.
func decodeText(content jsontext.Value) (string, error) {
	if content.Kind() == '"' {
		return jsonrpc.Text(content), nil
	}
	if content.Kind() != '{' {
		return "", nil
	}
	var text jsontext.Value
	isText := false
	var err error
	for name, value := range jsonrpc.Members(content, &err) {
		switch string(name) {
		case "type":
			isText = string(plainString(value)) == "text"
		case "text":
			text = value
		}
	}
	if err != nil || !isText {
		return "", err
	}
	return jsonrpc.Text(text), nil
}

// plainString returns the inside of a JSON string; ids and words need no
// unquoting, and one that would is compared as it stands.
func plainString(value jsontext.Value) []byte {
	if value.Kind() != '"' {
		return nil
	}
	return value[1 : len(value)-1]
}
