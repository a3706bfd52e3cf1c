// Where the page's data comes from: this address alone, by GET. The stream is read from the body of
// a fetch, since an EventSource could not send the token.

const LONGEST_LINE = 64 * 1024 * 1024; // a server that never ends a line is no server of ours
const QUIET_SECONDS = 45; // a stream says ": alive" every 15 s
const KEY = "coopbandits-token";

class NeedsToken extends Error {}
class Refused extends Error {}

function takeToken() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found === null) return;
  sessionStorage.setItem(KEY, found);
  history.replaceState(null, "", location.pathname + location.search);
}

export function keepToken(token) {
  sessionStorage.setItem(KEY, token);
}

async function get(path, signal) {
  const token = sessionStorage.getItem(KEY);
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const answer = await fetch(new URL(path, document.baseURI), { headers, signal, cache: "no-store", credentials: "omit", redirect: "error" });
  if (answer.status === 401) throw new NeedsToken();
  if (!answer.ok) throw new Refused(await reason(answer));
  return answer;
}

async function reason(answer) {
  const text = (await answer.text()).slice(0, 1000);
  try {
    return String(JSON.parse(text).error ?? text);
  } catch {
    return text;
  }
}

export async function ask(path) {
  return (await get(path)).json();
}

// Calls `heard(kind, data)` for every event until the stream ends or fails.
async function listen(heard, signal, noise) {
  const answer = await get(`events${location.search}`, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    noise();
    rest += value;
    if (rest.length > LONGEST_LINE) throw new Error("an event without end");
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) tell(block, heard);
  }
}

function tell(block, heard) {
  let kind = "message";
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) kind = line.slice(6).trim();
    else if (line.startsWith("data:")) data += line.slice(5);
  }
  if (!data) return;
  try {
    heard(kind, JSON.parse(data));
  } catch (error) {
    reportError(error); // the page's own, and no reason to hear nothing more
  }
}

// Listens for ever. `told` hears of the connection: "live"; "away", and why where the server said so;
// "token", and what to call once there is one.
export async function follow(heard, told) {
  takeToken();
  for (let wait = 0.5; ; wait = Math.min(2 * wait, 8)) {
    const control = new AbortController();
    let why = "";
    let last = performance.now();
    const watch = setInterval(() => {
      if (performance.now() - last > 1000 * QUIET_SECONDS) control.abort();
    }, 1000);
    try {
      await listen((kind, data) => {
        wait = 0.25;
        told("live");
        heard(kind, data);
      }, control.signal, () => { last = performance.now(); });
    } catch (error) {
      if (error instanceof Refused) why = error.message;
      if (error instanceof NeedsToken) {
        await new Promise((again) => told("token", again));
        wait = 0.25;
      }
    } finally {
      clearInterval(watch);
      control.abort();
    }
    told("away", why);
    await new Promise((again) => setTimeout(again, 1000 * wait));
  }
}
