// The operator's page: it asks /inspect/ and shows the answers. It changes nothing.

const refreshMs = 3000; // between two looks at threads and agents
const pageSize = 50;
const maxEvents = 300; // rows that are kept
const maxText = 2000; // characters of a row

const $ = (id) => document.getElementById(id);
const text = (node, words) => { if (node.textContent !== words) node.textContent = words; };
const clip = (words) => (words.length > maxText ? `${words.slice(0, maxText)}…` : words);
const when = (iso) => new Date(iso).toLocaleString();
const count = (n) => (n === undefined ? '–' : n.toLocaleString());

// memory writes bytes as a person reads them.
function memory(bytes) {
  return bytes ? `${(bytes / (1 << 20)).toLocaleString(undefined, { maximumFractionDigits: 0 })} MiB` : 'unknown';
}

function state(word, words) {
  $('state').dataset.state = word;
  text($('state-text'), words);
}

class Locked extends Error {}

// ask returns what the daemon answers, or throws; Locked when there is no session.
async function ask(path) {
  const response = await fetch(`/inspect/${path}`);
  const answer = await response.json();
  if (response.status === 401) throw new Locked(answer.error.message);
  if (!response.ok) throw new Error(answer.error.message);
  return answer;
}

let refused = ''; // why the last link did not let us in

// enter exchanges the code of the link, which then disappears from the address.
async function enter() {
  const code = location.hash.slice(1);
  if (!/^[0-9a-f]{64}$/.test(code)) return;
  history.replaceState(null, '', '/inspect/');
  const response = await fetch('/inspect/session', { method: 'POST', body: JSON.stringify({ code }) });
  refused = response.ok ? '' : (await response.json()).error.message;
}

function lock() {
  watch(null);
  $('desk').hidden = true;
  $('gate').hidden = false;
  text($('gate-why'), refused);
  state('lost', 'No access');
}

// fill makes the rows of a table equal to a list and keeps those that stay, with
// the focus in them.
function fill(body, list, key, make, show) {
  const old = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  list.forEach((item, i) => {
    let row = old.get(key(item));
    old.delete(key(item));
    if (!row) {
      row = make(item);
      row.dataset.key = key(item);
    }
    if (body.rows[i] !== row) body.insertBefore(row, body.rows[i] ?? null);
    show(row, item);
  });
  for (const row of old.values()) row.remove();
}

function makeRow(cells, numbers) {
  const row = document.createElement('tr');
  for (let i = 0; i < cells; i++) {
    const cell = row.appendChild(document.createElement(i ? 'td' : 'th'));
    if (!i) cell.scope = 'row';
    if (numbers.includes(i)) cell.className = 'number';
  }
  return row;
}

// Threads.

let wanted = pageSize; // rows

async function listThreads() {
  const status = $('status').value;
  let threads = [], next;
  do {
    const query = new URLSearchParams({ limit: String(Math.min(wanted - threads.length, 1000)) });
    if (status) query.set('status', status);
    if (next) query.set('after', next);
    const page = await ask(`threads?${query}`);
    threads = threads.concat(page.threads);
    next = page.next;
  } while (next && threads.length < wanted);
  if (status !== $('status').value) return; // another list is on its way
  fill($('threads'), threads, (t) => t.threadId, makeThread, showThread);
  $('more').hidden = !next;
  text($('threads-note'), threads.length ? `${threads.length}${next ? ' of more' : ''} shown` : 'There are none.');
}

function makeThread(t) {
  const row = makeRow(7, [6]);
  const button = row.cells[0].appendChild(document.createElement('button'));
  button.type = 'button';
  button.textContent = t.threadId;
  button.addEventListener('click', () => {
    watch(t.threadId);
    $('detail-title').focus();
  });
  return row;
}

function showThread(row, t) {
  row.toggleAttribute('data-chosen', t.threadId === watched);
  row.cells[1].dataset.word = t.status;
  text(row.cells[1], t.status);
  text(row.cells[2], t.provider);
  text(row.cells[3], t.ownerOrigin ?? 'nobody');
  text(row.cells[4], when(t.createdAt));
  text(row.cells[5], when(t.updatedAt));
  text(row.cells[6], count(t.usage?.totalTokens));
  if (t.threadId === watched) facts.summary = t;
}

// One thread.

let watched = null; // its id
let source = null; // of its events
let paused = false;
let held = []; // events while it is paused
const facts = { summary: null, snapshot: null };

function watch(id) {
  source?.close();
  source = null;
  [watched, held, facts.summary, facts.snapshot] = [id, [], null, null];
  pause(false);
  for (const row of $('threads').rows) row.toggleAttribute('data-chosen', row.dataset.key === id);
  $('detail').hidden = !id;
  $('events').replaceChildren();
  $('events').setAttribute('aria-busy', 'true'); // nobody wants to hear all that was
  $('facts').replaceChildren();
  delete $('facts').dataset.shown;
  $('pending').hidden = $('saying').hidden = true;
  text($('events-note'), '');
  if (!id) return;
  text($('detail-title'), `Thread ${id}`);
  connect(id);
  refresh();
}

function connect(id) {
  source = new EventSource(`/inspect/threads/${encodeURIComponent(id)}/events`);
  source.addEventListener('snapshot', (e) => {
    facts.snapshot = JSON.parse(e.data);
    $('events').setAttribute('aria-busy', 'false'); // it comes behind the events that it counts
    if (!paused) showSnapshot();
  });
  source.addEventListener('thread', (e) => {
    const event = JSON.parse(e.data);
    if (paused) held.push(event);
    else showEvents([event]);
    held.splice(0, held.length - maxEvents);
    sayPaused();
  });
  source.addEventListener('gone', (e) => {
    source.close();
    text($('events-note'), JSON.parse(e.data).message);
  });
  source.addEventListener('error', () => {
    if (source.readyState === EventSource.CLOSED) text($('events-note'), 'The events cannot be read. Close the thread and open it again.');
  });
}

function showSnapshot() {
  const { summary: t, snapshot: s } = facts;
  if (!s) return;
  const list = [['Status', s.status], ['Last event', count(s.latestSeq)], ['Tokens', count(s.usage?.totalTokens)]];
  if (t) list.push(['Agent', t.provider], ['Owner', t.ownerOrigin ?? 'nobody'], ['Folder', t.workspacePath]);
  if (s.activeOperation) list.push(['Runs', `${s.activeOperation.operationKind} since ${when(s.activeOperation.startedAt)}`]);
  const last = s.lastCompletedOperation;
  if (last) list.push(['Last turn', `${last.success ? 'succeeded' : last.error?.code ?? 'failed'}, ${when(last.completedAt)}`]);
  const shown = list.flat().join('\n');
  if ($('facts').dataset.shown !== shown) {
    $('facts').dataset.shown = shown;
    $('facts').replaceChildren(...list.flatMap(([name, value]) => {
      const dt = document.createElement('dt'), dd = document.createElement('dd');
      [dt.textContent, dd.textContent] = [name, value];
      return [dt, dd];
    }));
  }
  const p = s.pendingToolRequest;
  $('pending').hidden = !p;
  if (p) {
    text($('pending-text'), `${p.toolName}, since ${when(p.createdAt)}, for ${count(p.timeoutMs / 1000)} s at most`);
    text($('pending-args'), clip(JSON.stringify(p.args, null, 2)));
  }
  $('saying').hidden = !s.activeMessage;
  text($('saying-text'), s.activeMessage ? s.activeMessage.text.slice(-maxText) : '');
}

// told says in words what an event carries.
function told(e) {
  const parts = [];
  if (e.status) parts.push(e.status);
  if (e.message !== undefined) parts.push(`“${e.message}”`);
  if (e.text) parts.push(e.text);
  if (e.providerSessionId) parts.push(e.providerSessionId);
  if (e.toolName) parts.push(e.toolName);
  if (e.args !== undefined) parts.push(JSON.stringify(e.args));
  if (e.result !== undefined) parts.push(JSON.stringify(e.result));
  if (e.totalTokens !== undefined) parts.push(`${count(e.totalTokens)} tokens`);
  if (e.operationKind) parts.push(`${e.operationKind} ${e.success ? 'succeeded' : 'failed'}`);
  if (e.error) parts.push(`${e.error.code}: ${e.error.message}`);
  return clip(parts.join(' '));
}

function showEvents(events) {
  const log = $('events');
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  for (const e of events) {
    const row = log.appendChild(document.createElement('li'));
    for (const [tag, name, words] of [['span', 'number', String(e.seq)], ['b', '', e.type], ['span', 'what', told(e)]]) {
      const cell = row.appendChild(document.createElement(tag));
      cell.className = name;
      cell.textContent = words;
    }
  }
  while (log.children.length > maxEvents) log.firstChild.remove();
  if (atEnd) log.scrollTop = log.scrollHeight;
}

function pause(on) {
  paused = on;
  $('pause').setAttribute('aria-pressed', String(on));
  if (!on) {
    showEvents(held.splice(0));
    showSnapshot();
  }
  sayPaused();
}

function sayPaused() {
  text($('events-note'), paused ? `Paused. ${held.length} new.` : '');
}

// Agents.

async function listRuntimes() {
  const { runtimes } = await ask('runtimes');
  fill($('runtimes'), runtimes, (r) => r.runtimeId, () => makeRow(6, [1, 3, 4, 5]), (row, r) => {
    [r.provider, String(r.pid), when(r.startedAt), count(r.sessions), count(r.turns), memory(r.rssBytes)]
      .forEach((words, i) => text(row.cells[i], words));
  });
  const total = runtimes.reduce((sum, r) => sum + (r.rssBytes ?? 0), 0);
  text($('runtimes-note'), runtimes.length ? `Together ${memory(total)}` : 'None runs now.');
}

let timer = 0;
let turn = 0; // of refreshing; an older one that is late arms nothing

async function refresh() {
  clearTimeout(timer);
  const mine = ++turn;
  try {
    await Promise.all([listThreads(), listRuntimes()]);
    if (!paused) showSnapshot();
    $('gate').hidden = true;
    $('desk').hidden = false;
    state('good', 'Connected');
  } catch (e) {
    if (e instanceof Locked) {
      lock();
      return;
    }
    state('lost', e instanceof TypeError ? 'The daemon does not answer' : e.message); // fetch throws TypeError
  }
  if (mine === turn) timer = setTimeout(refresh, refreshMs);
}

$('status').addEventListener('change', () => {
  wanted = pageSize;
  refresh();
});
$('more').addEventListener('click', () => {
  wanted += pageSize;
  refresh();
});
$('pause').addEventListener('click', () => pause(!paused));
$('leave').addEventListener('click', () => {
  watch(null);
  $('threads-title').focus();
});
addEventListener('hashchange', () => enter().then(refresh, refresh)); // a fresh link in the same tab

enter().then(refresh, refresh);
