// Choose an option from JavaScript, use it, and submit its reward: AGENT=127.0.0.1:8400 node client.mjs
// Whatever fails, `choose` returns the default; `observe` retries, which never counts a reward twice.
const { AGENT = "127.0.0.1:8400", BANDIT = "button", DEFAULT = "blue", TOKEN } = process.env;
const TIMEOUT = 1000 * Number(process.env.TIMEOUT ?? 0.5); // milliseconds

async function ask(path, body) {
  return await fetch(`http://${AGENT}/bandits/${BANDIT}/${path}`, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      ...(TOKEN && { Authorization: `Bearer ${TOKEN}` }),
    },
    body: JSON.stringify(body),
    redirect: "error",
    signal: AbortSignal.timeout(TIMEOUT), // also while the body is read
  });
}

export async function choose() {
  try {
    const answer = await ask("choose", {});
    const { arm, ticket } = await answer.json();
    if (answer.status === 200 && typeof arm === "string" && typeof ticket === "string") {
      return { arm, ticket };
    }
    console.error(`the agent did not choose: status ${answer.status}`);
  } catch (error) {
    console.error(`the agent did not choose: ${error}`);
  }
  return { arm: DEFAULT, ticket: "" };
}

// Returns whether the reward was counted; the reward of a default counts nowhere.
export async function observe(ticket, reward) {
  if (!ticket) return false;
  let reason;
  for (const pause of [100, 200, 400, 800, 1600, 3200, 0]) {
    try {
      const answer = await ask("observe", { ticket, reward });
      reason = await answer.text();
      if (answer.status === 200) return true;
      if (answer.status < 500 && answer.status !== 429) break; // rejected for good
    } catch (error) {
      reason = error;
    }
    await new Promise((done) => setTimeout(done, pause));
  }
  console.error(`a reward is lost: ${reason}`);
  return false;
}

const { arm, ticket } = await choose();
console.log(arm);
const counted = await observe(ticket, 1.0);
process.exitCode = ticket && !counted ? 1 : 0;
