// The transcript: complete messages for everybody, pieces only for the eye, since a
// screen reader is better served by whole sentences.

const names = { user: "You", agent: "Agent" };

export class Chat {
  turns = [];
  #log = document.getElementById("log");
  #live = document.getElementById("live");

  show(turns) {
    this.turns = [];
    this.#log.querySelectorAll(".turn").forEach((node) => node.remove());
    for (const { who, text } of turns) this.add(who, text);
  }

  // add appends what somebody said; who is "user", "agent" or "note".
  add(who, text) {
    this.turns.push({ who, text });
    const turn = document.createElement("div");
    turn.className = `turn ${who}`;
    if (names[who]) {
      const name = document.createElement("b");
      name.textContent = names[who];
      turn.append(name);
    }
    turn.append(text);
    document.getElementById("empty").hidden = true;
    this.#log.append(turn);
    this.#log.scrollTop = this.#log.scrollHeight;
  }

  stream(text) {
    this.#live.hidden = false;
    this.#live.append(text);
    this.#live.scrollTop = this.#live.scrollHeight;
  }

  // settle takes the pieces away: the message is complete, or never will be.
  settle() {
    this.#live.hidden = true;
    this.#live.textContent = "";
  }
}
