package acp

import (
	"github.com/go-json-experiment/json"
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
	callChange               // a tool call goes on, or ends
)

// update is a session/update.
type update struct {
	session   string
	kind      updateKind
	messageID string // "" when the agent gives none
	text      string
	call      callUpdate // of toolUpdate and callChange
}

// updateParams are the params of a session/update.
type updateParams struct {
	SessionID string `json:"sessionId"`
	Update    struct {
		Kind      string      `json:"sessionUpdate"`
		MessageID looseString `json:"messageId"`
		Content   contentText `json:"content"`
	} `json:"update"`
}

// updateMethod is the notification of an update.
const updateMethod = "session/update"

// update returns what params say, but for a tool call.
func (p *updateParams) update() update {
	u := update{session: p.SessionID, kind: kindOf(p.Update.Kind)}
	if u.kind == chunkUpdate || u.kind == messageUpdate {
		u.messageID, u.text = string(p.Update.MessageID), string(p.Update.Content)
	}
	return u
}

// maxChunkFrame is the longest frame in bytes that is tried as a chunk: longer ones
// are too few to gain by it, and too long to be read twice.
const maxChunkFrame = 16 << 10

// decodeChunk reads a frame that is the notification of a chunk of text, and of
// nothing else. Such frames are most of what an agent says; this reads envelope and
// params at once, where [jsonrpc.Decode] and decodeUpdate each read all of it.
func decodeChunk(frame []byte) (u update, ok bool) {
	if len(frame) > maxChunkFrame {
		return update{}, false
	}
	var n struct {
		ID     jsontext.Value `json:"id"` // none
		Method string         `json:"method"`
		Params updateParams   `json:"params"`
	}
	if err := jsonrpc.Unmarshal(frame, &n); err != nil || n.ID != nil || n.Method != updateMethod {
		return update{}, false
	}
	u = n.Params.update()
	return u, u.kind == chunkUpdate
}

// decodeUpdate reads the params of a session/update.
func decodeUpdate(params jsontext.Value) (update, error) {
	var p updateParams
	if err := jsonrpc.Unmarshal(params, &p); err != nil {
		return update{}, err
	}
	u := p.update()
	if u.kind == toolUpdate || u.kind == callChange {
		u.call = decodeCall(params)
	}
	return u, nil
}

// decodeCall reads what an update tells of a tool call; nothing if it has another
// shape.
func decodeCall(params jsontext.Value) callUpdate {
	var p struct {
		Update struct {
			ID     looseString    `json:"toolCallId"`
			Title  looseString    `json:"title"`
			Status looseString    `json:"status"`
			Input  jsontext.Value `json:"rawInput"`
		} `json:"update"`
	}
	if err := jsonrpc.Unmarshal(params, &p); err != nil {
		return callUpdate{}
	}
	u := p.Update
	return callUpdate{id: string(u.ID), title: string(u.Title), status: string(u.Status), input: string(u.Input)}
}

// looseString is a string where an agent may also write something else, which
// counts as nothing.
type looseString string

// UnmarshalJSONFrom reads a value of any kind.
func (s *looseString) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '"' {
		return dec.SkipValue()
	}
	token, err := dec.ReadToken()
	if err == nil {
		*s = looseString(token.String())
	}
	return err
}

// contentText is the text of a content block, or nothing for one of another type:
// the shape of content depends on the kind of update.
type contentText string

// UnmarshalJSONFrom reads a value of any kind.
func (c *contentText) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case '"':
		return (*looseString)(c).UnmarshalJSONFrom(dec)
	case '{':
		var block struct {
			Type string      `json:"type"`
			Text looseString `json:"text"`
		}
		err := json.UnmarshalDecode(dec, &block)
		if block.Type == "text" {
			*c = contentText(block.Text)
		}
		return err
	}
	return dec.SkipValue()
}

func kindOf(word string) updateKind {
	switch word {
	case "agent_message_chunk", "assistant_message_chunk":
		return chunkUpdate
	case "agent_message", "agent_message_complete":
		return messageUpdate
	case "tool_call":
		return toolUpdate
	case "tool_call_update":
		return callChange
	}
	return otherUpdate
}
