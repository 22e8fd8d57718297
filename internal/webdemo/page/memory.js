// What the page keeps for its next life: the session, how far it has listened, and
// what was said.

const key = "pedelec-demo";
const maxTurns = 200;

export function recall() {
  try {
    const kept = JSON.parse(localStorage.getItem(key));
    return typeof kept?.sessionId === "string" ? kept : null;
  } catch {
    return null;
  }
}

export function keep(session, { provider, turns, color }) {
  const record = { sessionId: session.sessionId, seq: session.lastEventSeq, provider, turns: turns.slice(-maxTurns), color };
  try {
    localStorage.setItem(key, JSON.stringify(record));
  } catch {
    // Without room the page only remembers less.
  }
}

export function forget() {
  localStorage.removeItem(key);
}
