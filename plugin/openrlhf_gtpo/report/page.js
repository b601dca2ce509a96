"use strict";
const runs = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const WORDS = { entropy: "entropy", shaped_reward: "shaped reward", advantage: "advantage" };
const LISTED = 100;
let group = null, what = "entropy";

// The page's ground at 0, full blue so far above it, full orange so far below.
function colour(value, reach) {
  const share = reach > 0 && value !== null ? Math.min(100, 100 * Math.abs(value) / reach) : 0;
  return `color-mix(in srgb, var(--${value < 0 ? "below" : "above"}) ${share}%, var(--panel))`;
}

const digits = (value, count) => (value < 0.001 && value > 0 ? value.toExponential(count - 2) : value.toPrecision(count)).replace("e-", "e−");
const shown = (value) => (value === null || value === undefined ? "none" : `${value < 0 ? "−" : ""}${digits(Math.abs(value), 4)}`);
const signed = (value) => (value === null ? "none" : value === 0 ? "0" : `${value < 0 ? "−" : "+"}${digits(Math.abs(value), 3)}`);
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

function make(tag, text, attributes = {}) {
  const element = Object.assign(document.createElement(tag), attributes);
  element.textContent = text;
  return element;
}

const classOf = (response) => (response.correct === null ? "ungraded" : response.correct ? "correct" : "wrong");
const visible = (token) => token.replace(/\n/g, "⏎") || "∅";

// A token's difference from its class's mean; 0 where that is rounding.
function difference(response, t, name) {
  const about = group.classes[classOf(response)][name];
  if (!about || !response[name]) return null;
  const away = response[name][t] - about.mean;
  return Math.abs(away) > about.rounding ? away : 0;
}

function bar(low, high, reach) {
  const span = make("span", "", { className: "bar" });
  const stops = [0, 0.25, 0.5, 0.75, 1].map((share) => colour(low + (high - low) * share, reach));
  span.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  return span;
}

function drawScale() {
  const scale = byId("scale");
  scale.textContent = "";
  const values = group.responses.flatMap((response) => response[what] || []);
  if (!values.length) {
    scale.append(make("p", "This run's estimator has none."));
    return 0;
  }
  if (what === "entropy") {
    const high = values.reduce((one, other) => Math.max(one, other), 0);
    const line = make("p", shown(0));
    line.append(bar(0, high, high), `${shown(high)} nats`);
    scale.append(line);
    return high;
  }
  for (const [name, values] of Object.entries(group.classes)) {
    const about = values[what];
    if (!about) continue;
    const line = make("p", `${name}: mean ${shown(about.mean)}`);
    if (about.reach > 0) line.append(`; difference ${signed(-about.reach)}`, bar(-about.reach, about.reach, about.reach), signed(about.reach));
    else line.append(", every token the same");
    scale.append(line);
  }
  return 0;
}

function draw() {
  what = new FormData(byId("choice")).get("what");
  byId("prompt").textContent = `${group.prompt}\nreference answer: ${group.label}`;
  const highest = drawScale();
  const holder = byId("responses");
  holder.textContent = "";
  group.responses.forEach((response, r) => {
    const name = classOf(response);
    const box = make("div", "", { className: `response ${name}` });
    const mark = { correct: "✓ ", wrong: "✗ ", ungraded: "" }[name];
    const line = make("div", "", { className: "tokens" });
    response.tokens.forEach((token, t) => {
      const span = make("span", token.replace(/\n/g, "⏎\n") || "∅", { className: "token", tabIndex: 0 });
      span.dataset.place = `${r}:${t}`;
      const about = group.classes[name][what];
      span.style.background = what === "entropy" || !response[what]
        ? colour(response[what] ? response[what][t] : null, highest)
        : colour(difference(response, t, what), about.reach);
      line.append(span);
    });
    box.append(
      make("b", `${r + 1} ${mark}${name}${response.guide ? ", the guide's" : ""}`),
      make("small", plural(response.tokens.length, "token")),
      line,
    );
    holder.append(box);
  });
  if (byId("sorted").open) sort();
}

function tell(event) {
  const place = event.target.dataset && event.target.dataset.place;
  if (!place) return;
  const [r, t] = place.split(":").map(Number);
  const response = group.responses[r];
  const detail = byId("detail");
  detail.querySelector("p").textContent =
    `“${visible(response.tokens[t])}”, token ${t + 1} of ${response.tokens.length}, ${classOf(response)} response ${r + 1}; ` +
    `d ${group.d[t]}, h ${group.h[t]}: correct and wrong responses at least so long`;
  const body = detail.querySelector("tbody");
  body.textContent = "";
  for (const [name, words] of Object.entries(WORDS)) {
    const about = group.classes[classOf(response)][name];
    const row = make("tr", "");
    const cells = [shown(response[name] && response[name][t]), shown(about && about.mean), signed(difference(response, t, name))];
    row.append(make("th", words, { scope: "row" }), ...cells.map((cell) => make("td", cell)));
    body.append(row);
  }
  detail.hidden = false;
}

// The tokens farthest from the mean of their class, of the value that is coloured.
function sort() {
  const rows = group.responses.flatMap((response, r) =>
    response.tokens.map((token, t) => ({ token, response, r, t, away: difference(response, t, what) })));
  const away = rows.filter((row) => row.away).sort((one, other) => Math.abs(other.away) - Math.abs(one.away));
  byId("sorted-note").textContent = away.length
    ? `By ${WORDS[what]}: ${plural(away.length, "token")} of ${rows.length} differ from the mean of their class` +
      `${away.length > LISTED ? `; the first ${LISTED}` : ""}.`
    : `By ${WORDS[what]}: no token differs from the mean of its class.`;
  const body = byId("sorted").querySelector("tbody");
  body.textContent = "";
  for (const { token, response, r, t, away: value } of away.slice(0, LISTED)) {
    const row = make("tr", "");
    const button = make("button", visible(token), { type: "button", title: "show it above" });
    button.addEventListener("click", () => document.querySelector(`[data-place="${r}:${t}"]`).focus());
    const first = make("td", "");
    first.append(button);
    row.append(first, ...[signed(value), shown(response[what][t]), `${r + 1} ${classOf(response)}`, t + 1].map((cell) => make("td", cell)));
    body.append(row);
  }
}

function choose() {
  const [run, number] = byId("group").value.split(":").map(Number);
  group = runs[run].groups[number];
  byId("detail").hidden = true;
  byId("previous").disabled = byId("group").selectedIndex === 0;
  byId("next").disabled = byId("group").selectedIndex === byId("group").length - 1;
  draw();
}

function step(by) {
  const select = byId("group");
  const index = select.selectedIndex + by;
  if (index < 0 || index >= select.length) return;
  select.selectedIndex = index;
  choose();
}

if (runs.length) {
  byId("tokens").hidden = false;
  runs.forEach((run, i) => {
    run.groups.forEach((one, j) => {
      const right = one.responses.filter((response) => response.correct).length;
      const text = `${run.run}, step ${one.step}, group ${one.group}: ${right} of ${one.responses.length} correct`;
      byId("group").append(make("option", text, { value: `${i}:${j}` }));
    });
  });
  byId("group").addEventListener("change", choose);
  byId("choice").addEventListener("change", (event) => event.target.name === "what" && draw());
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  byId("responses").addEventListener("mouseover", tell);
  byId("responses").addEventListener("focusin", tell);
  byId("sorted").addEventListener("toggle", () => byId("sorted").open && sort());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    if (event.key === "p" || event.key === "n") step(event.key === "p" ? -1 : 1);
  });
  choose();
}

// A link to a metric opens the folded glossary that it stands in.
function unfold() {
  const entry = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = entry && entry.closest("details");
  if (folded && !folded.open) {
    folded.open = true;
    entry.scrollIntoView();
  }
}
window.addEventListener("hashchange", unfold);
unfold();
