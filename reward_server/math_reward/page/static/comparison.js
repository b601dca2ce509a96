"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const SURE = { correct: "correct", wrong: "wrong", no_answer: "wrong", ambiguous: "wrong", restated: "wrong", unevaluated: "wrong" };
const byId = (id) => document.getElementById(id);

// Everything from outside goes into the page as text.
function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// The formulas are the grader's own markup, with the texts in them escaped; a document parsed this way runs no script.
function formula(mathml, otherwise) {
  const place = element("div", null, "formula");
  const math = mathml && new DOMParser().parseFromString(mathml, "text/html").querySelector("math");
  place.append(math ? document.importNode(math, true) : otherwise);
  return place;
}

function side(title, ...parts) {
  const box = element("div", null, "side");
  box.append(element("h3", title), ...parts);
  return box;
}

function verdict(word) {
  const line = element("p");
  line.append(element("span", word.replaceAll("_", " "), `tag ${SURE[word] ?? "unsure"}`));
  return line;
}

function folded(title, text, open) {
  const details = element("details");
  details.open = open;
  details.append(element("summary", title), element("pre", text));
  return details;
}

function shown(one) {
  const card = element("article");
  const head = element("h2", `Line ${one.line}: ${one.kind} `);
  if (one.label !== null) head.append(element("span", `labelled ${one.label ? "correct" : "wrong"}`));
  const sides = element("div", null, "sides");
  sides.append(
    side("Answer that this grader found", formula(one.answer_mathml, one.answer === null ? "none" : "not read as mathematics"),
      element("code", one.answer), verdict(one.ours), element("p", one.why)),
    side("Reference", formula(one.reference_mathml, "not read as mathematics"),
      ...one.references.map((text) => element("code", text))),
    side("Answer that Math-Verify found", element("code", one.their_answer ?? "none"), verdict(one.theirs),
      element("p", one.their_detail)),
  );
  card.append(head, sides, folded("Completion", one.completion, false));
  if (one.prompt !== null) card.append(folded("Prompt", one.prompt, false));
  return card;
}

function refresh() {
  const kinds = new Set([...document.querySelectorAll("#kinds input:checked")].map((box) => box.value));
  const text = byId("search").value.toLowerCase();
  const wanted = DATA.differences.filter((one) => kinds.has(one.kind) &&
    (!text || [one.completion, one.prompt ?? "", one.answer ?? "", ...one.references].some((each) => each.toLowerCase().includes(text))));
  byId("differences").replaceChildren(...wanted.map(shown));
  byId("shown").textContent = `${wanted.length} of ${DATA.differences.length} rows. This page has the first ${DATA.limit} of each kind.`;
}

const present = new Set(DATA.differences.map((one) => one.kind));
byId("rows").textContent = `${DATA.rows} rows`;
for (const [kind, count] of Object.entries(DATA.counts)) {
  const label = element("label");
  const box = element("input");
  box.type = "checkbox";
  box.value = kind;
  box.checked = present.has(kind);
  box.disabled = !present.has(kind);
  box.addEventListener("change", refresh);
  label.append(box, ` ${kind} (${count})`);
  byId("kinds").append(label);
}
byId("search").addEventListener("input", refresh);
refresh();
