// The question whether the page may act, and patience with a daemon that is away.

import { $ } from "/page/controls.js";

const away = ["SDK_TRANSPORT_DISCONNECTED", "CORE_RUNTIME_UNAVAILABLE", "SDK_BRIDGE_TIMEOUT"];
const firstWaitMs = 250;
const maxWaitMs = 4000;

export function isAway(error) {
  return away.includes(error.code);
}

export class Gate {
  #command = "";
  #onRefused;

  // onRefused is called when the user has refused the page.
  constructor(onRefused) {
    this.#onRefused = onRefused;
    $("gate-copy").onclick = async () => {
      await navigator.clipboard.writeText(this.#command).catch(() => getSelection().selectAllChildren($("gate-command")));
      $("gate-copy").textContent = "Copied";
    };
  }

  // ask shows which command approves the page.
  ask(command) {
    this.#command = command;
    $("gate-command").textContent = command;
    $("gate-wait").textContent = "Waiting for your decision.";
    $("gate-copy").textContent = "Copy";
    $("gate-again").hidden = true;
    $("gate").hidden = false;
  }

  // pass runs a job until it is done, however often the daemon is away or the user
  // takes time to decide. Other errors are the caller's.
  async pass(job, onAway) {
    for (let wait = firstWaitMs; ; wait = Math.min(2 * wait, maxWaitMs)) {
      try {
        const result = await job();
        $("gate").hidden = true;
        return result;
      } catch (error) {
        if (error.code === "APPROVAL_REJECTED") await this.#refused();
        else if (isAway(error)) {
          $("gate").hidden = true;
          onAway(error);
          await new Promise((resolve) => setTimeout(resolve, wait));
        } else if (error.code !== "APPROVAL_TIMEOUT") throw error;
      }
    }
  }

  #refused() {
    this.#onRefused();
    $("gate").hidden = false;
    $("gate-wait").textContent = "You have refused this page. Approve it after all with the command above, then ask again.";
    $("gate-again").hidden = false;
    return new Promise((resolve) => ($("gate-again").onclick = resolve));
  }
}
