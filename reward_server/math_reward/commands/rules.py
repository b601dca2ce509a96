"""``math-reward rules``: what the grader knows, each row of its tables with its example."""

import argparse
import sys

from math_reward.commands.refusal import refuse


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "rules",
        help="list the grader's rules with their examples",
        description="Lists the rows of the grader's tables, each with its example: how a thought and a phrase begin, "
        "where an answer may stand, what denies it, which form a prompt asks for, and by which rule two answers are "
        "the same. The example of a rule is a reference, an answer that it accepts and one that it rejects; that of a "
        "form is a prompt, a reference and an answer without the form. `math-reward grade` prints the rule that "
        "decided.",
    )
    parser.add_argument("word", metavar="WORD", nargs="?", default="", help="list only the rows that have this word")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Prints the rows, a line each; ends the process."""
    lines = [f"{table:<9}{name}  |  {example}".replace("\n", "\\n") for table, name, example in listed()]
    found = [line for line in lines if arguments.word.lower() in line.lower()]
    if not found:
        refuse(f"No rule has {arguments.word!r} in it: run `math-reward rules` for all.")
    print("\n".join(found))
    sys.exit(0)


def listed() -> list[tuple[str, str, str]]:
    """Each row of the grader's tables: the name of its table, its own name and its example, in the order of use."""
    from math_reward.grader.asked_form import FORMS
    from math_reward.grader.extraction.phrases import PHRASES
    from math_reward.grader.extraction.prose import PLACES, STATED
    from math_reward.grader.extraction.thoughts import THOUGHTS
    from math_reward.grader.extraction.values_at_end import ENDINGS, VALUES
    from math_reward.grader.grading import SECOND_CHANCES
    from math_reward.grader.rules import RULES
    from math_reward.grader.second_readings import SECOND_READINGS
    from math_reward.grader.words.doubts import DOUBTS

    return [
        *(("thought", thought.models, thought.example) for thought in THOUGHTS),
        *(("place", place.about, place.example) for place in PLACES),
        *(("behind", place.about, place.example) for place in STATED),
        *(("ending", ending.about, ending.example) for ending in ENDINGS),
        *(("value", place.about, place.example) for place in VALUES),
        *(("phrase", phrase.language, phrase.example) for phrase in PHRASES),
        *(("doubt", f"{doubt.language}, {doubt.kind}: {doubt.places}", doubt.example) for doubt in DOUBTS),
        *(("form", form.name, " | ".join(form.example)) for form in FORMS),
        *(("rule", rule.sentence.replace("``", ""), " | ".join(rule.example)) for rule in RULES),
        *(("second", reading.sentence.replace("``", ""), " | ".join(reading.example)) for reading in SECOND_READINGS),
        *(("chance", chance.about, " | ".join(chance.example)) for chance in SECOND_CHANCES),
    ]
