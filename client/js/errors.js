// Errors as a page sees them: a code to act on, a message to read, and details.

export class PedelecError extends Error {
  constructor(code, message, details) {
    super(message || code);
    this.name = "PedelecError";
    this.code = code;
    if (details !== undefined) this.details = details;
  }
}

// disconnected is the one code for a connection that is gone: of the promises
// that were waiting on it, and of every later call on a handle that it carried.
export const disconnected = "SDK_TRANSPORT_DISCONNECTED";

// sessionCodes are the codes of the daemon that a page knows by another name.
const sessionCodes = {
  THREAD_BUSY: "SESSION_BUSY",
  THREAD_ENDED: "SESSION_ENDED",
  PROVIDER_COMMAND_FAILED: "SESSION_ERROR",
};

// wireError reads an error of the wire; one without a code takes the fallback.
export function wireError(error, fallback) {
  const code = typeof error?.code === "string" && error.code ? error.code : fallback;
  return new PedelecError(code, typeof error?.message === "string" ? error.message : "", error?.details);
}

// sessionError gives an error of the daemon the name that a session's caller
// knows; the daemon's own code stays in details.coreCode.
export function sessionError(error, fallback) {
  const known = error instanceof PedelecError ? error : wireError(error, fallback);
  const code = sessionCodes[known.code];
  return code ? new PedelecError(code, known.message, { ...known.details, coreCode: known.code }) : known;
}
