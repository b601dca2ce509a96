"use strict";

const EXAMPLES = [
  ["A fraction", "She eats three of the eight slices, so $\\frac{3}{8}$ of the cake is gone.\n\nThe answer is \\boxed{\\frac{3}{8}}.", "0.375"],
  ["A root", "By the quadratic formula $x = \\boxed{\\frac{1+\\sqrt{5}}{2}}$.", "2\\cos\\frac{\\pi}{5}"],
  ["An interval", "The square root needs $x - 2 \\ge 0$, so the domain is $\\boxed{[2, \\infty)}$.", "x \\ge 2"],
  ["A set", "The roots are \\boxed{\\{3, -1, \\tfrac{1}{2}\\}}.", "-1, 0.5, 3"],
  ["A matrix", "Hence $A^{-1} = \\boxed{\\begin{pmatrix} 1 & -\\frac{1}{2} \\\\ 0 & \\frac{1}{2} \\end{pmatrix}}$.", "\\begin{pmatrix} 1 & -0.5 \\\\ 0 & 0.5 \\end{pmatrix}"],
  ["A wrong sign", "Expanding gives \\boxed{x^2 - 2x + 1}.", "(x+1)^2"],
  ["Two guesses", "It is \\boxed{42} or \\boxed{43}.", "42"],
  ["No answer", "Let me think about this once more.", "7"],
];

const VERDICTS = {
  correct: ["correct", "✓", "Correct", "The answer equals the reference."],
  wrong: ["wrong", "✗", "Wrong", "The answer is not the reference."],
  no_answer: ["wrong", "✗", "No answer", "No final answer was found in the completion."],
  ambiguous: ["wrong", "✗", "Ambiguous", "The completion offers several answers; guesses do not count."],
  restated: ["wrong", "✗", "Restated", "The answer is the question itself, not calculated."],
  unevaluated: ["wrong", "✗", "Unevaluated", "The answer leaves an operation undone."],
  bad_reference: ["unsure", "!", "Bad reference", "The reference cannot be used: fix the data. The completion was not judged."],
  prompt_not_found: ["unsure", "!", "Prompt not found", "It is unknown where the completion begins."],
  too_complex: ["unsure", "!", "Too complex", "The answer is beyond the grader's limits on size."],
  timeout: ["unsure", "!", "Timeout", "Grading did not end in time."],
  error: ["unsure", "!", "Error", "The grader itself failed."],
};

const STAGES = {
  string: "the same text",
  exact: "exact numbers",
  structure: "its form",
  numeric: "values at points",
  sympy: "SymPy",
};

// One option each, and what the page says of a grade with it.
const OTHER_OPTIONS = [
  [{ mode: "lenient" }, "if an answer in prose counts"],
  [{ mode: "strict" }, "if only a box counts"],
  [{ rel_tol: 0.01 }, "with a relative tolerance of 0.01"],
  [{ allow_rounded: true }, "if a rounded answer counts"],
  [{ allow_unevaluated: true }, "if an operation that is left undone counts"],
  [{ evaluated: true }, "if a number counts in lowest terms only"],
];

const byId = (id) => document.getElementById(id);

// The token is kept for this tab alone, so that a reload does not ask again.
byId("token").value = sessionStorage.getItem("token") ?? "";
byId("token").addEventListener("change", () => sessionStorage.setItem("token", byId("token").value));

async function ask(path, body) {
  const headers = { "Content-Type": "application/json" };
  const token = byId("token").value.trim();
  if (token) headers["Authorization"] = `Bearer ${token}`;
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  if (response.status === 401) {
    byId("token-field").hidden = false;
    throw new Error(token ? "The service does not accept this token." : "This service wants its token: enter it on the left.");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.detail ?? `The service answered with status ${response.status}.`);
  return answer;
}

function inWords(error) {
  return error instanceof TypeError ? "The service cannot be reached." : error.message;
}

function milliseconds(seconds) {
  return seconds < 0.01 ? `${(seconds * 1000).toFixed(2)} ms` : `${Math.round(seconds * 1000)} ms`;
}

// Everything from outside goes into the page as text.
function show(result) {
  const [kind, mark, word, meaning] = VERDICTS[result.verdict] ?? ["unsure", "!", result.verdict, ""];
  byId("verdict").className = kind;
  byId("mark").textContent = mark;
  byId("word").textContent = word;
  byId("meaning").textContent = meaning;
  byId("detail").textContent = result.detail ?? "";
  byId("detail").hidden = !result.detail;
  byId("answer-text").textContent = result.answer ?? "none";
  byId("reference-text").textContent = result.reference;
  byId("rule").textContent = result.rule ?? "";
  byId("rule").hidden = !result.rule;
  byId("stage").textContent = STAGES[result.stage] ?? "nothing to compare";
  byId("stage").parentElement.hidden = result.verdict === "ambiguous";
  byId("seconds").textContent = milliseconds(result.seconds);
  byId("reward").textContent = result.reward.toFixed(1);
  byId("hint").hidden = true;
  byId("outcome").hidden = false;
}

function complain(sentence) {
  byId("problem").textContent = sentence;
  byId("problem").hidden = !sentence;
}

// Which single option would give another reward. A grade that is asked for meanwhile ends this.
let asked = 0;
async function showOthers(item, result) {
  const mine = asked;
  for (const [change, words] of VERDICTS[result.verdict]?.[0] === "unsure" ? [] : OTHER_OPTIONS) {
    const [[name, value]] = Object.entries(change);
    if (item.options[name] === value || (name === "rel_tol" && item.options.rel_tol > 0)) continue;
    const other = await ask("v1/explain", { ...item, options: { ...item.options, ...change } }).catch(() => result);
    if (mine !== asked) return;
    if (other.correct === result.correct) continue;
    const line = document.createElement("li");
    line.textContent = `It would be ${other.verdict.replace("_", " ")} ${words}.`;
    byId("others").append(line);
    byId("others").hidden = false;
  }
}

async function grade(event) {
  event?.preventDefault();
  const button = byId("grade");
  if (button.disabled) return;
  button.disabled = true;
  asked += 1;
  byId("others").textContent = "";
  byId("others").hidden = true;
  try {
    const options = {
      mode: byId("mode").value,
      rel_tol: Number(byId("rel_tol").value),
      allow_rounded: byId("allow_rounded").checked,
      allow_unevaluated: byId("allow_unevaluated").checked,
      evaluated: byId("evaluated").checked,
    };
    const [completion, reference, prompt] = ["completion", "reference", "prompt"].map((id) => byId(id).value);
    const item = { completion, reference, prompt: prompt || null, options };
    const result = await ask("v1/explain", item);
    show(result);
    complain("");
    showOthers(item, result);
  } catch (error) {
    byId("outcome").hidden = true;
    byId("hint").hidden = true;
    complain(inWords(error));
    if (!byId("token-field").hidden && !byId("token").value) byId("token").focus();
  } finally {
    button.disabled = false;
  }
}

for (const [name, completion, reference] of EXAMPLES) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = name;
  button.addEventListener("click", () => {
    byId("completion").value = completion;
    byId("reference").value = reference;
    grade();
  });
  byId("examples").append(button);
}

byId("form").addEventListener("submit", grade);
byId("form").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) grade(event);
});
