// The page: one session, what it shows, and what its buttons do.

import { Pedelec } from "/client/pedelec.js";
import { Chat } from "/page/chat.js";
import { $, onPress, setUsable, usable } from "/page/controls.js";
import { Files } from "/page/files.js";
import { Gate, isAway } from "/page/gate.js";
import { forget, keep, recall } from "/page/memory.js";
import { Wall, paint } from "/page/wall.js";

const says = {
  connecting: "Connecting",
  gate: "Waiting for your approval",
  refused: "Refused by you",
  lost: "Connection lost, trying again",
  none: "Connected, no session yet",
  idle: "Ready",
  running: "The agent is working",
  waiting_tool_result: "The agent waits for this page",
  ended: "Session ended; resume it or begin a new one",
  error: "The last turn failed; prepare, or end and resume",
};

// What is suggested to an agent that is a script, and to one that understands.
const scripted = [
  ["Count", "stream 40 every 60ms of 4"],
  ["Paint the wall teal", 'call paint {"color":"teal"}'],
  ["Write a file", "write .pedelec-runtime/assets/hello.txt Hello from the agent."],
  ["Who are you?", "whoami"],
  ["Fail", "fail The agent gave up."],
];
const spoken = [
  ["Paint the wall", "Paint the wall in a color that you like."],
  ["Write a file", "Write a file hello.txt with one sentence into your assets folder."],
  ["Look at my files", "Which files do you see in your assets folder?"],
];

let config = {};
let session = null;
let provider = "";
let state = "connecting";

const chat = new Chat();
const gate = new Gate(() => setState("refused"));
const wall = new Wall(remember);
const files = new Files(() => session, fail);
const pedelec = new Pedelec({
  endpoint: find,
  onApprovalRequired: () => {
    gate.ask(config.approve);
    setState("gate");
  },
});

// find asks the server of this page where the daemon is: its port changes with
// each start.
async function find() {
  const answer = await fetch("/config.json", { cache: "no-store" });
  if (!answer.ok) throw new Error(await answer.text());
  config = await answer.json();
  return config.endpoint;
}

function setState(next) {
  state = next;
  $("state").dataset.state = next;
  $("state-text").textContent = says[next];
  const live = ["idle", "running", "waiting_tool_result", "error"].includes(next);
  const busy = ["running", "waiting_tool_result"].includes(next);
  const connected = live || ["none", "ended"].includes(next);
  $("text").disabled = !connected;
  $("provider").disabled = !connected;
  setUsable("send", ["idle", "none"].includes(next));
  setUsable("create", connected && !busy);
  setUsable("prepare", ["idle", "error"].includes(next));
  setUsable("end", live);
  setUsable("resume", next === "ended");
  setUsable("upload", live);
  setUsable("refresh", live);
  $("file").disabled = !live;
  $("stop").hidden = !busy;
  for (const hint of $("hints").children) hint.setAttribute("aria-disabled", String(!usable("send")));
  for (const button of document.querySelectorAll("#files button")) button.setAttribute("aria-disabled", String(!live));
}

function showSession() {
  $("session-id").textContent = session ? `Session ${session.sessionId}, ${provider}` : "No session yet.";
  showUsage();
}

function showUsage() {
  const total = session?.usage.totalTokens;
  $("usage").textContent = total === undefined ? "No tokens counted yet" : `${total.toLocaleString()} tokens so far`;
}

function remember() {
  if (session) keep(session, { provider, turns: chat.turns, color: wall.color });
}

function fail(error) {
  if (isAway(error)) return; // shown by the state
  $("fault").textContent = `${error.message} (${error.code ?? error.name})`;
}

function note(text) {
  chat.add("note", text);
  remember();
}

// use makes a session the one of the page. Its handlers are registered before
// anything else is awaited, so that they miss nothing.
function use(next) {
  session = next;
  session.onChat((text) => {
    chat.settle();
    chat.add("agent", text);
    remember();
  });
  session.onChatDelta((text) => chat.stream(text));
  session.onStatus((status) => {
    if (session !== next || !next.attached) return;
    if (status !== "waiting_tool_result") wall.withdraw();
    if (!["running", "waiting_tool_result"].includes(status)) chat.settle();
    setState(status);
    showUsage();
    remember();
  });
  session.onEnded(() => note("The session has ended."));
  session.onError((error, ctx) => {
    if (error.code === "SDK_TRANSPORT_DISCONNECTED") void lost(next);
    else if (error.code === "PROVIDER_SESSION_LOST") note("The agent has lost its memory and began a new conversation.");
    else if (ctx.source === "sdk") fail(error);
  });
  session.onTool("paint", (args) => wall.serve(args));
  setState(session.getStatus());
  showSession();
  remember();
}

// lost attaches to the session again as soon as the daemon is back.
async function lost(handle) {
  if (session !== handle) return;
  wall.withdraw();
  chat.settle();
  setState("lost");
  note("The connection to Pedelec is lost.");
  await attach(handle.sessionId);
}

async function attach(sessionId, options) {
  try {
    use(await gate.pass(() => pedelec.resumeSession(sessionId, options), () => setState("lost")));
    note(session.getStatus() === "ended" ? "Attached to the session; it has ended." : "Attached to the session again.");
    if (session.getStatus() !== "ended") await files.list();
  } catch (error) {
    fail(error);
    if (!["THREAD_NOT_FOUND", "THREAD_ACCESS_DENIED"].includes(error.code)) return;
    forget();
    session = null;
    showSession();
    setState("none");
  }
}

async function create() {
  if (session && session.getStatus() !== "ended") await session.end().catch(fail);
  forget();
  provider = $("provider").value;
  const options = {
    provider: provider || undefined,
    skills: { guidance: "The page shows a wall to its user, and can paint it.", tools: [paint] },
    workspace: config.workspace ? { path: config.workspace } : undefined,
    autoEndOnDisconnect: false, // the page comes back to it after a reload
  };
  const next = await gate.pass(() => pedelec.createSession(options), () => setState("lost"));
  chat.show([]);
  chat.settle();
  wall.set(null);
  files.clear();
  provider = next.provider;
  use(next);
}

async function send(text) {
  $("fault").textContent = "";
  try {
    if (!session) await create();
    chat.add("user", text);
    remember();
    await session.sendText(text);
    if (usable("refresh")) await files.list();
  } catch (error) {
    if (isAway(error)) note("The answer was cut off. If the turn goes on, it is followed again.");
    else note(`${error.message} (${error.code ?? error.name})`);
  }
}

async function act(job) {
  $("fault").textContent = "";
  try {
    await job();
  } catch (error) {
    fail(error);
  }
}

function submit() {
  const text = $("text").value;
  if (!usable("send") || text.trim() === "") return;
  $("text").value = "";
  $("text").focus();
  void send(text);
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
$("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
onPress("stop", () => act(() => session.cancel()));
onPress("create", () => act(create));
onPress("prepare", () => act(async () => {
  await session.prepare();
  note("The agent is ready.");
}));
onPress("end", () => act(() => session.end()));
onPress("resume", () => act(async () => {
  await session.resume();
  note("The session goes on.");
  await files.list();
}));

function showProviders(list) {
  const options = list.map(({ code, name, available, isDefault }) => {
    const option = document.createElement("option");
    option.value = code;
    option.textContent = available ? name : `${name} (not available)`;
    option.disabled = !available;
    option.selected = isDefault;
    return option;
  });
  $("provider").replaceChildren(...options);
}

function showHints() {
  const buttons = (config.scripted ? scripted : spoken).map(([label, text]) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.onclick = () => usable("send") && void send(text);
    return button;
  });
  $("hints").replaceChildren(...buttons);
}

async function begin() {
  const kept = recall();
  if (kept) {
    chat.show(kept.turns ?? []);
    wall.set(kept.color ?? null);
    provider = kept.provider ?? "";
  }
  showProviders(await gate.pass(() => pedelec.listProviders(), () => setState("connecting")));
  showHints();
  if (kept) await attach(kept.sessionId, { afterSeq: kept.seq });
  else setState("none");
}

begin().catch(fail);
