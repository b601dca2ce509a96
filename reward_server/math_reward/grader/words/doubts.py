r"""How a text denies, doubts, corrects or changes the value that it gives, or offers another one.

One table: what is said, in which language, and beside what it counts. The same word counts in some places and not in
others, on purpose: "maybe 42" is no answer, and "maybe \boxed{42}" is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Doubt(NamedTuple):
    """Something that a text says of a value."""

    language: str
    kind: str
    """``denies``, ``doubts``, ``corrects``, ``changes`` (twice 42) or ``alternative`` (or 42)."""
    places: str
    """Names of `PLACES`."""
    said: str
    """A pattern, in lower case. Where a place has no form, one that begins with a letter is a whole word."""
    example: str
    """A text that is graded in another way without this row. What stands before ``=>`` is its prompt."""


# What stands between a box and the words about it.
_DRESS = r"(?:[\s$*_`'\"”」】)\]}.,;:!。，（(—–-]|\\[)\]])"
_SUBJECT = r"(?:(?:but|and|which|this|that|it|however|the answer|dies|das|ce|esto|isso|это|这|これ|이것)\s?){0,3}"
_HERE = r"[\s$\\(]{0,4}$"
_AND_HERE = r"[\s$\\(]{1,4}$"
_ANSWER = rf"(?: (?:equal(?: to)?|the (?:correct |right |final )?(?:answer|solution|value)[:,]?))?{_HERE}"
_GAP = r"(?:(?!\b(?:but|however|actually)\b)[^.!?。！？\n]){0,40}$"
_PAUSE = r"(?:[\s$.,;:()\[\]&*{}/|]|\\[,;: ()\[\]]|\\q?quad(?![a-z])|\\text(?![a-z]))"
VALUE = r"[\s$\\(]{0,4}(?P<value>-?\d[\d,]*(?:\.\d+)?(?:/\d+)?)"
_MAYBE = "maybe|perhaps|possibly|else|ربما|vielleicht|peut-être|quizás?|talvez|forse|может быть"
_IT_IS = (
    r"(?:\b(?:it|this|that|the (?:answer|result|value))(?:'s| is| was)|\b(?:should|must|ought to)(?: be| have been))"
)


DOUBTS = (
    Doubt("English", "denies", "before",
          r"(?:\b(?:is|are|was|be|equals?) (?:not|never)|n't(?: be)?|\bcannot be|(?<![\d)])!=|\\not ?="
          rf"|\banything but|\bneither){_ANSWER}", r"It is not \boxed{42}."),
    Doubt("English", "denies", "before",
          rf"\b(?:false|untrue|wrong|incorrect) (?:that|to (?:say|claim|write|conclude|answer|think)){_ANSWER}",
          r"It is wrong to say \boxed{42}."),
    Doubt("English", "denies", "before",
          r"\b(?:refuse to (?:answer|say)|ruled? out|no way (?:in which|that)|tempting to (?:write|say|answer)"
          f"|rejected?|discard(?:ed)?|instead of|rather than){_ANSWER}", r"We rejected \boxed{42}."),
    Doubt("German", "denies", "before", rf"\bist nicht{_ANSWER}", r"Es ist nicht \boxed{42}."),
    Doubt("French", "denies", "before", f"n['’]est pas{_ANSWER}", r"Ce n'est pas \boxed{42}."),
    Doubt("Spanish", "denies", "before", rf"\b(?:no es(?: igual a)?|nunca [^.\n]{{0,30}}){_ANSWER}",
          r"No es \boxed{42}."),
    Doubt("Portuguese", "denies", "before", rf"\bnão é{_ANSWER}", r"A resposta não é \boxed{42}."),
    Doubt("Russian", "denies", "before", rf"\bне(?: равно| равен)?{_ANSWER}", r"Ответ не \boxed{42}."),
    Doubt("Chinese", "denies", "before", f"(?:不是|不等于|并非){_ANSWER}", r"答案不是\boxed{42}"),
    Doubt("Arabic", "denies", "before", f"ليس(?:ت)?{_ANSWER}", r"الجواب ليس \boxed{42}"),
    Doubt("Vietnamese", "denies", "before", f"không phải(?: là)?{_ANSWER}", r"Đó không phải là \boxed{42}."),
    Doubt("Italian", "denies", "before", rf"\bnon (?:è|sia)(?: vero che)?[^.\n]{{0,40}}{_ANSWER}",
          r"Non è \boxed{42}."),
    Doubt("Dutch", "denies", "before", rf"\bniet{_ANSWER}", r"Het antwoord is zeker niet \boxed{42}."),
    Doubt("Polish", "denies", "before", rf"\bnie (?:jest|wynosi){_ANSWER}", r"To nie jest \boxed{42}."),
    Doubt("English", "denies", "before",
          "(?:(?:false|untrue|not true)|(?:nobody|no one|never|not) (?:should )?(?:conclude|say"
          r"|claim)) that\b[^.!?\n]{0,60}$", r"Nobody should say that it is \boxed{42}."),
    Doubt("English", "denies", "before", f"(?:everything|all|any|anything|none) (?:but|except){_HERE}",
          r"It may be anything except \boxed{42}."),
    Doubt("English", "doubts", "before",
          r"\b(?:if|suppose|assume|imagine|say) (?:that )?the (?:answer|result|solution) (?:is|was|were"
          f"|had been|equals){_HERE}", r"Suppose the answer is \boxed{42}."),
    Doubt("English", "doubts", "before",
          r"\b(?:if|when|by) (?:(?:we|you|one|someone) )?(?:forgets?|forgetting|overlooks?|overlooking"
          rf"|miss(?:es)?|carelessly|mistakenly)\b(?! about){_GAP}", r"If we forget a case we get \boxed{42}."),
    Doubt("English", "doubts", "before",
          r"\b(?:common|typical|frequent|easy|tempting|usual|naive) (?:\w+ )?(?:mistake|error|trap|wrong answer"
          rf"|guess)s?\b{_GAP}", r"A common mistake is \boxed{42}."),
    Doubt("English", "doubts", "before",
          r"\b(?:an?|the|any|some|this|my|that|many|most) (?:careless|naive|sloppy|wrong|incorrect|mistaken"
          rf"|erroneous|flawed) (?:\w+ ){{1,3}}(?:gets?|gives?|obtains?|finds?|yields?|leads? to|would)\b{_GAP}",
          r"A careless solver gets \boxed{42}."),
    Doubt("English", "doubts", "before",
          r"\b(?:some|many|others|people|students|most) (?:(?:people|students|others|of them) )?(?:(?:might|may"
          rf"|could|would|will) )?(?:claims?|thinks?|believes?|says?|argues?|guess|answer(?:ed)?)\b{_GAP}",
          r"Some people claim that \boxed{42}."),
    Doubt("English", "doubts", "before", rf"\bone (?:might|may|could) (?:be tempted|think|guess|believe)\b{_GAP}",
          r"One might think it is \boxed{42}."),
    Doubt("English", "changes", "before",
          rf"\b(?:subtract|add|take|multiply|divide|increase|decrease)\b[^.!?\n]{{0,20}}\b(?:from|to"
          f"|by){_AND_HERE}", r"Subtract 1 from \boxed{42}."),
    Doubt("English", "changes", "before",
          r"\b(?:twice|double|triple|half|negative|minus|opposite|reciprocal|inverse|negation|root|square|cube"
          f"|factorial|logarithm|multiple|third|quarter|divisors?|factors?|complement)(?: of)?{_AND_HERE}",
          r"It is half of \boxed{42}."),
    Doubt("German, French, Spanish, Portuguese, Italian", "changes", "before",
          r"\b(?:doppelte|hälfte|dreifache|double|moitié|triple|doble|mitad|dobro|metade|doppio|metà) (?:von"
          f"|der|de|del|do|di|da){_AND_HERE}", r"Das Doppelte von \boxed{42}."),
    Doubt("German", "changes", "before", rf"\btag (?:vor|nach){_AND_HERE}", r"Am Tag vor \boxed{42}."),
    Doubt("English and others", "doubts", "case",
          r"\b(?:if|had|were|wenn|würde|si|se|jeśli)\b[^.!?\n]{0,80}\b(?:would|wäre|käme|würde|sería|serait"
          r"|sarebbe|seria|byłoby)\b[^.!?\n]{0,40}$", r"If it had been 6, it would be \boxed{42}."),
    Doubt("English", "denies", "after",
          r"(?:is|was|are|were|would be|being)?\s?(?:an? |the |just |also |clearly |definitely |simply "
          "|probably ){0,9}(?:wrong|incorrect|false|mistaken|erroneous|invalid|inaccurate|nonsense|impossible"
          "|absurd|discarded|ruled out|not (?:an? |the |quite |actually |really ){0,9}(?:correct|right|true|valid"
          r"|answer|solution|final|it\b|what we)|n't (?:the )?(?:correct|right|true|answer|solution))\b",
          r"\boxed{42} is wrong."),
    Doubt("German", "denies", "after inside",
          r"(?:ist|wäre)?\s?(?:leider )?(?:falsch|inkorrekt|nicht (?:richtig|korrekt|die))",
          r"\boxed{42} ist falsch."),
    Doubt("French", "denies", "after inside",
          r"(?:est|n['’]est)?\s?(?:fau(?:x|sse)|incorrecte?|erronée?|pas (?:correct|juste"
          "|la (?:bonne )?réponse))", r"\boxed{42} est faux."),
    Doubt("Spanish", "denies", "after inside",
          r"(?:es|está)?\s?(?:incorrect[oa]|fals[oa]|equivocad[oa]|erróne[oa]|no es)", r"\boxed{42} es incorrecto."),
    Doubt("Portuguese", "denies", "after inside", r"(?:é|está)?\s?(?:incorret[oa]|errad[oa]|fals[oa]|não é)",
          r"\boxed{42} está errado."),
    Doubt("Russian", "denies", "after inside",
          "(?:это )?(?:неверн|неправильн|ошибоч|не верно|не является|не подходит)", r"\boxed{42} — неверно."),
    Doubt("Chinese", "denies", "after inside", "[是为]?(?:不正确|不对|错误|错|不是|有误)", r"\boxed{42}不正确。"),
    Doubt("Japanese", "denies", "after inside",
          "[はが]?(?:間違|誤り|不正解|正しくな|では(?:ない|あり?ません)|じゃない)", r"\boxed{42}は間違いです。"),
    Doubt("Korean", "denies", "after inside", r"[은는이가]?\s?(?:틀렸|틀린|아니|아닙|오답|잘못)",
          r"\boxed{42}이 아니다."),
    Doubt("Arabic", "denies", "after inside", "(?:خطأ|خاطئ|غير صحيح|ليس)", r"\boxed{42} خطأ"),
    Doubt("Hindi", "denies", "after inside", "(?:गलत|ग़लत|सही नहीं|नहीं)", r"\boxed{42} गलत है।"),
    Doubt("Vietnamese", "denies", "after inside", r"(?:là )?(?:sai\b|không (?:đúng|phải))", r"\boxed{42} là sai."),
    Doubt("Italian", "denies", "after inside", "(?:è )?(?:sbagliat[oa]|errat[oa]|fals[oa]|non è)",
          r"\boxed{42} è sbagliato."),
    Doubt("Dutch", "denies", "after inside", "(?:is )?(?:fout|onjuist|niet (?:juist|correct|goed))",
          r"\boxed{42} is fout."),
    Doubt("Polish", "denies", "after inside", "(?:jest )?(?:błędn|źle|nieprawidłow|niepoprawn)",
          r"\boxed{42} jest błędne."),
    Doubt("Turkish", "denies", "after inside", "(?:yanlış|değil|hatalı)", r"\boxed{42} yanlış."),
    Doubt("all", "doubts", "box", f"{_DRESS}{{0,4}}[?？]", r"\boxed{42}? I doubt it."),
    Doubt("English and others", "denies", "box",
          rf"{_DRESS}{{0,8}}(?:no|nope|nein|non|нет|不|いいえ|아니요)[.,!。，]\s",
          r"\boxed{42}. No, it has one more."),
    Doubt("English", "denies", "box",
          rf"{_DRESS}{{0,8}}(?:scratch that|oops|correction\b|contradiction|i (?:was|am) wrong|not quite"
          "|was (?:my|a) (?:first )?guess)", r"\boxed{42}. Oops, one is missing."),
    Doubt("English", "denies", "box",
          rf"{_DRESS}{{0,8}}(?:wait|hmm|hold on|actually)[,.!—-]*\s(?:that|this|it|i)(?:'s|’s|'m| is| was"
          "| am)? (?:wrong|incorrect|mistaken|not (?:right|correct))", r"\boxed{42}. Wait, that is wrong."),
    Doubt("English", "doubts", "box",
          f"{_DRESS}{{0,8}}is (?:only |just )?(?:what|the (?:answer|result) (?:that )?(?:an?|many|some|most"
          "|careless))", r"\boxed{42} is what many get."),
    Doubt("English", "doubts", "box",
          rf"{_DRESS}{{0,8}}is (?:a |the )?(?:common |typical |tempting |naive |usual )+(?:\w+ )?(?:mistake"
          "|error|answer|trap|guess)", r"\boxed{42} is a common mistake."),
    Doubt("English and others", "corrects", "later",
          r"(?:^|[.!?。…\n])\s{0,4}(?:edit|p\.?\s?s|correction|korrektur|corrección|correção|correzione"
          r"|erratum|更正|修正|訂正|정정)\s?[:：.。しを]", r"\boxed{42}. Edit: one is missing."),
    Doubt("English", "corrects", "later",
          r"\bi (?:forgot|made an? (?:\w+ )?(?:error|mistake)|do not stand by|take (?:it|that|this) back"
          r"|withdraw|disagree)\b", r"\boxed{42}. But I forgot one."),
    Doubt("English", "corrects", "later",
          r"\bscrap that\b|\bmisprint\b|\bmarked (?:as )?wrong\b|\bfails (?:the|this|my) (?:check|test)\b"
          r"|\bcorrected (?:result|answer|value)\b|\bignore the box|\bwould be my answer\b",
          r"\boxed{42}. Scrap that."),
    Doubt("French, Spanish, Portuguese, Italian", "corrects", "later",
          r"\b(?:je me suis trompé|me equivoqué|me enganei|esqueça|ho sbagliato)\b", r"\boxed{42}. Me equivoqué."),
    Doubt("German, Polish, Russian, Chinese, Japanese", "corrects", "later",
          r"habe mich (?:geirrt|verrechnet)|ziehe [^.\n]{0,40}zurück|pomyłka|я ошиб|算错|間違え(?:た|まし)",
          r"\boxed{42}. Ich habe mich verrechnet."),
    Doubt("English", "denies", "number", r"\bnot|n't|\bnever|\bcannot|\bno (?:\w+\s){0,2}(?:answer|solution|value)",
          "There is no good answer 42"),
    Doubt("English", "doubts", "number",
          r"\bunsure|\bguess(?:ing)?|\bmaybe|\bperhaps|\bpossibly|\b(?:might|could|may|can) be",
          "So it is maybe 42."),
    Doubt("English", "doubts", "number", r"\b(?:tried|tried all|checked|tested|considered)", "So we tried 42."),
    Doubt("English", "alternative", "number", r"\bor|\bone of|\beither|\bbetween", "So it is one of 42."),
    Doubt("English", "changes", "number",
          r"\b(?:less|more|fewer|greater|smaller|larger|other|higher|lower) than|(?:\bis|\bare|\bbe"
          "|^) ?at (?:least|most)", "So it is less than 42."),
    Doubt("Chinese", "denies", "chinese", "不(?:是|等于|为|到|超过|足|可能是)", "所以不到42"),
    Doubt("Chinese", "doubts", "chinese", "可能是", "所以可能是42"),
    Doubt("Chinese", "alternative", "chinese", "或者?是?", "有可能，或者42"),
    Doubt("Chinese", "changes", "chinese", "[大小多少]于|超过|至[少多]|最[少多]", "所以至少42"),
    Doubt("English", "doubts", "tried",
          r"\b(?:suppose|assume|we try|the (?:initial )?guess(?: was)?|substitut(?:e|ing)|what if|start with)",
          "We try 42"),
    Doubt("English", "denies", "tried", r"\b(?:fails? for|excludes?|contradict(?:s|ed by)|rules? out|unless)",
          "But it excludes 42"),
    Doubt("English", "changes", "tried", r"\b(?:parallel to|perpendicular to|compare with|inverse of)",
          "It is parallel to y = 2x"),
    Doubt("German, Spanish, Russian, French", "denies", "tried",
          r"\b(?:gilt nicht für|no se cumple con|не подходит|ne marche pas pour)", "Это не подходит 42"),
    Doubt("English", "changes", "changed", r"\b(?:but|except|twice|double|triple|half|negative)(?: of)?|!=",
          "So we have all, except 42."),
    Doubt("English", "changes", "changed",
          r"\b(?:opposite|reciprocal|inverse|negation|root|square|cube|factorial|logarithm|multiple|factor"
          "|power|third|quarter|complement|(?:divisor|factor|multiple|digit|root|power|prime|bit)s) of",
          "It is the power of 42."),
    Doubt("English", "changes", "changed", r"\b(?:over|under|above|below|beyond|exceed(?:s|ing)?)",
          "So it is over 42."),
    Doubt("English", "changes", "number-changed", "or (?:more|less|fewer|greater|higher|lower)",
          "So it is 42 or more."),
    Doubt("English", "denies", "number-after", r"not\b|n't\b|wrong\b|incorrect\b|fails?\b|impossible\b",
          "So 42 fails."),
    Doubt("English", "doubts", "number-after", r"(?:a |just a |my )guess\b", "So 42 was just a guess"),
    Doubt("English", "changes", "number-after", "too ", "So it is 42 too big"),
    Doubt("English", "changes", "number-changed box-changed",
          "squared|cubed|factorial|doubled|tripled|halved|inverted|plus|minus|divided by|multiplied by"
          r"|to the (?:power|\d{1,3}(?:st|nd|rd|th))", "So it is 42 squared"),
    Doubt("English", "changes", "number-changed", "modulo|mod", "So it is 42 mod"),
    Doubt("English", "changes", "box-changed",
          r"(?:more|less|fewer|greater|smaller|larger|higher|lower) than[\s$\\(]{1,4}-?\d",
          r"\boxed{42} more than 13"),
    Doubt("Chinese, Japanese, Korean", "changes", "box-changed",
          "的?(?:一半|两倍|二倍|三倍|平方)|の(?:半分|2倍|二乗)|의 (?:절반|두 배)", r"\boxed{42}的一半"),
    Doubt("English", "alternative", "boxes",
          r"\b(?:or|else|alternatively|otherwise|if not|also|it|is|could|might|be|even)\b|(?:option|possibility"
          r"|candidate|alternative) \d{1,3}", r"\boxed{41} or else \boxed{42}"),
    Doubt("English", "doubts", "boxes", r"\b(?:maybe|perhaps|possibly|probably|i guess)\b",
          r"\boxed{41}, maybe \boxed{42}"),
    Doubt("other languages", "alternative", "boxes",
          r"\b(?:oder|ou(?: bien)?|o|или|hoặc|veya|ya da|या|أو)\b|或者?|または|もしくは|あるいは|또는|혹은",
          r"\boxed{41} oder \boxed{42}"),
    Doubt("other languages", "doubts", "boxes",
          r"\b(?:vielleicht|peut-être|quizás?|talvez|может быть|belki)\b|也许|可能|아마",
          r"\boxed{41}, vielleicht \boxed{42}"),
    Doubt("English", "alternative", "another", "or|unless(?: it is)?", r"\boxed{42}, unless it is 41"),
    Doubt("other languages", "alternative", "another",
          "oder|ou bien|ou|o|u|или|lub|veya|hoặc|أو|或者?|または|또는|à moins que(?: ce ne soit)?"
          "|a menos que(?: sea)?|es sei denn,?|tenzij het(?: toch)?", r"\boxed{42}, oder 41"),
    Doubt("English", "corrects", "corrected", "mistakes?|error|wrong|sorry|oops|actually|wait|guess",
          r"\boxed{42} is my answer, though I guess it should be 41 in the end for all of them"),
    Doubt("English", "denies", "unknown",
          "(?:n['o]t|not|unable to) (?:know|determine|solve|answer|find|tell|say|compute|figure|verify"
          "|be (?:determined|solved|found|answered))", "I can't tell; 41 or 42"),
    Doubt("English", "denies", "unknown",
          r"(?:tell whether|without (?:reaching|finding))\b|(?:it|this) to the reader",
          "I end without finding it: 42"),
    Doubt("other languages", "denies", "unknown",
          r"\b(?:non (?:lo )?so|no (?:lo )?sé|je (?:ne sais|laisse)|weiß (?:ich |es )?nicht|nevím|nie wiem"
          r"|não sei)\b|не знаю|不知道|わかりません|모르겠", "Je ne sais pas; 41 ou 42"),
    Doubt("English", "doubts", "choice", "maybe|perhaps|possibly", "B. This is it, perhaps C"),
    Doubt("English", "denies", "remark word sentence question reason part parts letter curve equation", "not",
          "It does not matter that it is a square"),
    Doubt("English", "denies", "word sentence question letter curve equation", "never",
          "It never says that it is a square"),
    Doubt("English", "denies", "sentence question parts", "neither", "Is 7 neither prime?=>So it is neither prime."),
    Doubt("English", "denies", "remark sentence question part parts", "nor", "42 (it is neither odd nor even)"),
    Doubt("English", "denies", "remark sentence question reason letter curve", "no", "42 (there is no other one)"),
    Doubt("English", "denies", "sentence curve", "cannot", "A point cannot do so the line is 2x - y = 0"),
    Doubt("English", "denies", "sentence question reason part parts", r"(?:n't)\b", "42. We don't need the rest"),
    Doubt("English", "denies", "word", "n't", "I say it n't is a square"),
    Doubt("English", "denies", "check remark reason part parts sentence letter yes", "incorrect",
          "It is 42. Check: 6 * 7 = 41, incorrect."),
    Doubt("English", "denies", "check remark reason part parts sentence question letter yes", "wrong",
          "It is 42. Check: 6 * 7 = 41, wrong."),
    Doubt("English", "denies", "remark reason letter question", "false", "42, because the rest is false"),
    Doubt("English", "denies", "sentence", r"false\w*|fail\w*|doubt\w*|mistake\w*|contra\w+|lied|none|nobody",
          "How many apples do none have in 2 days?=>None have 42 apples in 2 days."),
    Doubt("English", "denies", "check", "fails?|mistake|, not|real value", "It is 42. Check: 6 * 7 = 41 fails."),
    Doubt("English", "denies", "remark", r"mistakes?|error|reject\w*|discard\w*|attempt|tried|careless",
          "42 (we tried it all)"),
    Doubt("English", "corrects", "reason", r"mistakes?|mistaken|errors?|erred|forgot\w*|really|sorry",
          "42. This is really all"),
    Doubt("English", "corrects", "check reason part sentence", "instead", "It is 42. Check: 6 * 7 = 41 instead."),
    Doubt("English", "corrects", "remark", "instead of", "42 (instead of the 41 there)"),
    Doubt("English", "corrects", "check remark reason truth yes", "actually",
          "It is 42. Check: 6 * 7 = 41 actually."),
    Doubt("English", "corrects", "remark reason part sentence yes", "but", "42 (but it has more)"),
    Doubt("English", "corrects", "reason truth yes", "wait|however", "42, because it is even; wait."),
    Doubt("English", "corrects", "part sentence yes", "rather", r"First \boxed{3}. Then rather \boxed{4}"),
    Doubt("English", "doubts", "remark sentence reason", "should", "42 (it should be so)"),
    Doubt("English", "doubts", "remark reason", "students?|naive", "42 (this is the naive way)"),
    Doubt("English", "doubts", "remark truth letter", "guess", "42 (this is a guess)"),
    Doubt("English", "doubts", "reason", r"guess\w*", "42, because I guessed it"),
    Doubt("English", "doubts", "remark truth", "unsure", "42 (we are unsure of it)"),
    Doubt("English", "doubts", "remark", "sure", "42 (we are sure of it)"),
    Doubt("English", "doubts", "remark word letter truth yes", "maybe|perhaps", "42 (it is maybe more)"),
    Doubt("English", "doubts", "remark", "possibly", "42 (it is possibly more)"),
    Doubt("English", "doubts", "sentence truth yes", "may|might", r"\boxed{Yes: it may be}"),
    Doubt("English", "doubts", "truth", "depends|not sure|cannot say|hmm", "Yes, it depends: I don't know"),
    Doubt("English", "doubts", "letter", "unlikely|is|was", r"\boxed{\text{(B) is unlikely}}"),
    Doubt("English", "doubts", "remark word sentence curve", "if", "42 (if we count all of them)"),
    Doubt("English", "doubts", "word sentence", "whether|unless", "Whether it is a square"),
    Doubt("English", "doubts", "remark", "unless|otherwise|only", "42 (it is only one case)"),
    Doubt("English", "doubts", "word", "doubt|deny|hardly|wonder|who|what|unclear|dunno|tried|methods?|ways",
          "I doubt that it is a square"),
    Doubt("English", "doubts", "sentence",
          r"impossible|unable|would|could|assum\w*|suppose\w*|imagine\w*|pretend\w*|claim\w*|were|said|saying"
          "|thinks?|believes?", "How many apples would she have in 2 days?=>She would have 42 apples in 2 days."),
    Doubt("English", "doubts", "curve", "assume|suppose|given", "Given a point, the line is 2x - y = 0"),
    Doubt("all", "doubts", "remark part", "[?？]", "42 (is it even?)"),
    Doubt("English", "changes", "remark sentence", "except", "42 (we left out all except these)"),
    Doubt("English", "changes", "sentence",
          r"double|twice|half|triple|multiply|plus|minus|subtract\w*|exclud\w*|less|fewer|almost|nearly|least"
          "|most|up to|every|extra|another",
          "How many apples has she at most in 2 days?=>She has at most 42 apples in 2 days."),
    Doubt("all", "changes", "sentence", r"[=\\?:]",
          "How many apples has she in 2 days?=>In 2 days she has 42 apples :"),
    Doubt("English", "changes", "curve", "parallel|perpendicular",
          "It is parallel to this one: the line is 2x - y = 0"),
    Doubt("English", "changes", "remark",
          r"^(?:for (?!comparison|example|instance|reference)|when|where|with|approximately|mod|and)\b",
          "42 (when we count all of them)"),
    Doubt("English", "changes", "question",
          "and|both|it|there|that|which|true|impossible|possible|all|every|any|each|always|only|some",
          "Is 7 always prime?=>So it is always prime."),
    Doubt("English", "alternative", "remark sentence question part yes", "or", "42 (or so it seems)"),
    Doubt("French, German", "alternative", "remark", "ou|oder", "42 (that is ou bien moins)"),
    Doubt("all", "alternative", "letter", r"^[,.;:&/|]|\b(?!A [a-z]{2})[A-J]\b", r"\boxed{\text{(B) both B and so}}"),
    Doubt("Chinese", "denies", "remark part", "不", "42 (that is 不 an odd one)"),
    Doubt("Chinese", "alternative", "remark part", "或", "42 (that is 或者 one more)"),
    Doubt("Chinese", "doubts", "remark", "若|如果|假设", "42 (we say 如果 this holds)"),
)  # fmt: skip

PLACES = {
    "before": "ROWS",  # a box or a number
    "case": "ROWS",  # before a box: in a text without boxes the question itself may speak of another case
    "after": rf"{_DRESS}{{0,8}}{_SUBJECT}(?:ROWS)",  # a box or a number
    "inside": "ROWS",  # an answer
    "box": "ROWS",  # behind it
    "later": "ROWS",  # anywhere behind a box or a number
    "number": r"(?:ROWS)\s{1,9}(?:[\w.]{1,20},?\s{1,9}){0,2}[$\\( ]{0,4}$",  # before it
    "chinese": r"(?:ROWS)\s?$",  # before a number
    "tried": r"(?:ROWS)\s(?:that\s)?[$\\(]{0,4}\Z",  # before a number or an equation
    "equation": r"\b(?:ROWS)\s{0,4}\Z",  # before it
    "changed": r"(?:ROWS)\s{1,3}[$\\( ]{0,4}$",  # before a number
    "number-after": r"[$\\) ]{0,6}(?:it )?(?:is|was|are|were|does|do|be)? ?(?:an? |the )?(?:ROWS)",
    "number-changed": r"[$\\) ]{0,4}(?:ROWS)\b",  # behind it
    "box-changed": r"[\s$)\]}]{0,4}(?:ROWS)",  # behind it
    "boxes": rf"\A{_PAUSE}*(?:ROWS)(?:{_PAUSE}|(?:ROWS))*",  # between two
    "another": rf"[\s$.)\]}}]{{0,8}},?\s{{0,4}}\(?(?:ROWS)\s(?:(?:{_MAYBE})\s)?{VALUE}",  # behind a box
    "corrected": rf"\b(?:ROWS)\b[^\n]{{0,60}}?{_IT_IS}(?=[\s$\\(]){VALUE}",  # behind a box
    "choice": r"\b(?:ROWS)(?: be| it is)? \(?[A-J]\b",  # behind another choice
    "unknown": "ROWS",  # the text has no answer
    # Anywhere in
    "remark": "",  # the brackets behind an answer
    "check": "",  # a check behind an answer
    "reason": "",  # the reason behind an answer
    "word": "",  # a clause that ends with words for an answer
    "sentence": "",  # one that repeats the question
    "question": "",  # one that is answered by yes or no
    "part": "",  # what stands about one part of an answer
    "parts": "",  # a sentence with all parts
    "letter": "",  # the text of a choice
    "curve": "",  # what stands before the equation of a curve
    "truth": "",  # a text that answers with yes or no
    "yes": "",  # what follows a yes or no
}
"""Where something is said: what is matched there, ROWS being what the rows of `DOUBTS` say."""
_CASED = frozenset(["before", "case", "unknown", "choice", "letter"])
"""Where case counts. A text in lower case is quicker to search."""


def compiled(rows: Iterable[Doubt]) -> Mapping[str, re.Pattern[str]]:
    """For each place a pattern that matches what any of the rows says there."""
    said: dict[str, list[str]] = {place: [] for place in PLACES}
    for row in rows:
        for place in row.places.split():
            said[place].append(row.said)
    patterns = {}
    for place, form in PLACES.items():
        words = [one for one in said[place] if one[0].isascii() and one[0].isalpha()]
        signs = [one for one in said[place] if one not in words]
        alone = "|".join([rf"\b(?:{'|'.join(words)})\b", *signs])
        pattern = form.replace("ROWS", "|".join(said[place]) or "(?!)") if form else alone
        patterns[place] = re.compile(pattern, 0 if place in _CASED else re.IGNORECASE)
    return patterns


SAYS = compiled(DOUBTS)


def says(place: str, text: str, start: int = 0) -> re.Match[str] | None:
    """What a text says, anywhere from ``start``, that counts in a place."""
    return SAYS[place].search(text, start)


def begins(place: str, text: str, start: int = 0) -> re.Match[str] | None:
    """What counts in a place, at the start of a text or at ``start``."""
    return SAYS[place].match(text, start)


def is_all(place: str, text: str) -> bool:
    """Whether a text is nothing else than what counts in a place."""
    return SAYS[place].fullmatch(text) is not None
