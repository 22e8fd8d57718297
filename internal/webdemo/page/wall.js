// The function of the page that an agent may call, and what it does.

import { PedelecError } from "/client/pedelec.js";
import { $ } from "/page/controls.js";

export const paint = {
  name: "paint",
  description: "Paints the wall that the user sees. The color is any CSS color, such as teal or #336699.",
  argsSchema: {
    type: "object",
    properties: { color: { type: "string", description: "a CSS color" } },
    required: ["color"],
    additionalProperties: false,
  },
  timeoutMs: 300_000,
};

export class Wall {
  color = null;
  #decide = null; // of the request that waits for the user

  constructor(changed) {
    this.changed = changed;
    $("request-allow").onclick = () => this.#decide?.(true);
    $("request-refuse").onclick = () => this.#decide?.(false);
  }

  set(color) {
    this.color = color;
    $("wall").style.setProperty("--wall", color ?? "transparent");
    $("wall").setAttribute("aria-label", `The wall is ${color ?? "unpainted"}`);
    $("wall-name").textContent = color ?? "unpainted";
  }

  // serve answers a call of the agent, after the user if so wished.
  async serve({ color }) {
    if (!CSS.supports("color", color)) throw new PedelecError("BAD_COLOR", `${color} is no color.`);
    if ($("ask").checked && !(await this.#ask(color))) return { painted: false, reason: "The user refused." };
    this.set(color);
    this.changed();
    return { painted: true, color };
  }

  // withdraw takes the question back: nobody waits for the answer any more, so none
  // is given.
  withdraw() {
    this.#decide = null;
    $("request").hidden = true;
    $("request-text").textContent = "";
  }

  #ask(color) {
    $("request-swatch").style.setProperty("--offer", color);
    $("request").hidden = false;
    $("request-text").textContent = `The agent wants to paint the wall ${color}.`; // a screen reader says what is new in sight
    return new Promise((resolve) => {
      this.#decide = (allowed) => {
        const focused = $("request").contains(document.activeElement);
        this.withdraw();
        if (focused) $("text").focus();
        resolve(allowed);
      };
    });
  }
}
