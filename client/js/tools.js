// The functions of the page that an agent may call: who answers a call, and the
// call that waits until somebody can.

import { PedelecError } from "./errors.js";
import { maxMessageBytes } from "./link.js";

// Room for the envelope around a result.
const maxResultBytes = maxMessageBytes - 4096;

export class Tools {
  #named = new Map(); // tool → handlers, the newest last
  #generic = []; // likewise
  #inline;
  #registered = false;
  #seen = new Set(); // ids of requests that were taken
  #held = null; // {request, answer} until a handler is there
  #due = false;

  constructor(inline) {
    this.#inline = inline;
  }

  // add registers a handler; name is null for one that serves every tool.
  add(name, handler) {
    this.#registered = true;
    const handlers = name === null ? this.#generic : (this.#named.get(name) ?? []);
    if (name !== null) this.#named.set(name, handlers);
    if (!handlers.includes(handler)) handlers.push(handler);
    this.#offer();
    return () => {
      const at = handlers.indexOf(handler);
      if (at >= 0) handlers.splice(at, 1);
    };
  }

  // take calls the handler of a request, once, and gives what it says to answer.
  // Without a handler a recovered request waits, as does any while the page has
  // registered none at all; otherwise the agent learns at once that nobody answers.
  take(request, recovered, context, answer) {
    if (this.#seen.has(request.requestId)) return;
    this.#seen.add(request.requestId);
    const call = { request, context, answer };
    if (this.#handler(request.toolName)) void this.#run(call);
    else if (recovered || !this.#registered) this.#held = call;
    else answer(failure("TOOL_HANDLER_NOT_FOUND", `The page has no handler for ${request.toolName}.`));
  }

  // over forgets a request that waits: it is settled without us. Without an id
  // it forgets any.
  over(requestId) {
    if (requestId === undefined || this.#held?.request.requestId === requestId) this.#held = null;
  }

  // offer tries the waiting request again, when the caller of add has said all:
  // a handler with a name goes before one without, in whatever order they come.
  #offer() {
    if (this.#due) return;
    this.#due = true;
    queueMicrotask(() => {
      this.#due = false;
      const call = this.#held;
      if (!call || !this.#handler(call.request.toolName)) return;
      this.#held = null;
      void this.#run(call);
    });
  }

  #handler(name) {
    const named = this.#named.get(name)?.at(-1) ?? this.#inline.get(name);
    if (named) return named;
    const generic = this.#generic.at(-1);
    return generic && ((args, context) => generic(name, args, context));
  }

  async #run({ request, context, answer }) {
    const handler = this.#handler(request.toolName);
    let result;
    try {
      result = (await handler(request.args, context())) ?? null;
      const text = JSON.stringify(result);
      if (text === undefined) throw new TypeError("The result is no JSON value.");
      if (new TextEncoder().encode(text).length > maxResultBytes) {
        result = failure("TOOL_RESULT_TOO_LARGE", "The page's result is too large.");
      }
    } catch (error) {
      result = failure("TOOL_HANDLER_ERROR", error?.message || String(error), error instanceof PedelecError ? error.details : undefined);
    }
    answer(result);
  }
}

function failure(code, message, details) {
  return { error: { code, message, ...(details !== undefined && { details }) } };
}
