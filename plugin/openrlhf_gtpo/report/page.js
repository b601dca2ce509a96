"use strict";
const runs = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
// From white to blue for what is never negative; from orange over white to blue for what has a sign.
const mix = (from, to, share) => from.map((value, i) => Math.round(value + (to[i] - value) * share));
const WHITE = [245, 245, 245], BLUE = [86, 164, 219], ORANGE = [230, 140, 60];

function colour(value, low, high) {
  if (value === null) return "transparent";
  const share = value >= 0 ? (high > 0 ? value / high : 0) : (low < 0 ? value / low : 0);
  return `rgb(${mix(WHITE, value >= 0 ? BLUE : ORANGE, Math.min(1, share)).join(",")})`;
}

const shown = (value) => (value === null || value === undefined ? "none" : Number(value).toPrecision(4));

function chosen() {
  const [run, group] = byId("group").value.split(":").map(Number);
  return runs[run].groups[group];
}

function draw() {
  const group = chosen();
  const what = new FormData(byId("choice")).get("what");
  const values = group.responses.flatMap((response) => response[what] || []);
  const low = Math.min(0, ...values), high = Math.max(0, ...values);
  byId("prompt").textContent = `${group.prompt}\nreference answer: ${group.label}`;
  const scale = byId("scale");
  scale.textContent = "";
  if (values.length) {
    const bar = document.createElement("span");
    bar.className = "bar";
    const stops = [0, 0.25, 0.5, 0.75, 1].map((share) => colour(low + (high - low) * share, low, high));
    bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
    scale.append(shown(low), bar, shown(high), what === "entropy" ? " nats" : "");
  } else {
    scale.textContent = "This run's estimator has none.";
  }
  const holder = byId("responses");
  holder.textContent = "";
  for (const response of group.responses) {
    const box = document.createElement("div");
    const verdict = response.correct === null ? "ungraded" : response.correct ? "correct" : "wrong";
    box.className = `response ${verdict}`;
    const head = document.createElement("span");
    head.className = "verdict";
    head.textContent = `${verdict === "correct" ? "✓ " : verdict === "wrong" ? "✗ " : ""}${verdict}${response.guide ? ", the guide's" : ""}`;
    const length = document.createElement("small");
    length.textContent = `${response.tokens.length} tokens`;
    const line = document.createElement("div");
    line.className = "tokens";
    response.tokens.forEach((token, t) => {
      const span = document.createElement("span");
      span.className = "token";
      span.tabIndex = 0;
      span.textContent = token.replace(/\n/g, "⏎\n") || "∅";
      span.style.background = colour(response[what] ? response[what][t] : null, low, high);
      const tell = () => {
        byId("detail").textContent =
          `token ${t + 1}   entropy ${shown(response.entropy[t])} nats   shaped reward ` +
          `${shown(response.shaped_reward && response.shaped_reward[t])}   advantage ${shown(response.advantage[t])}   ` +
          `d ${group.d[t]}   h ${group.h[t]}`;
      };
      span.addEventListener("mouseenter", tell);
      span.addEventListener("focus", tell);
      line.append(span);
    });
    box.append(head, " ", length, line);
    holder.append(box);
  }
}

if (runs.length) {
  byId("tokens").hidden = false;
  runs.forEach((run, i) => {
    run.groups.forEach((group, j) => {
      const option = document.createElement("option");
      option.value = `${i}:${j}`;
      const right = group.responses.filter((response) => response.correct).length;
      option.textContent = `${run.run}, step ${group.step}, group ${group.group}: ${right} of ${group.responses.length} correct`;
      byId("group").append(option);
    });
  });
  byId("choice").addEventListener("change", draw);
  draw();
}
