"""What the skill `research` executes: collecting sources, ranking their passages, writing a report.

No model is asked: the report quotes. It runs in the sandbox engine, so it is written without
generators and class hierarchies, and reaches files and the web through `ctx.call` alone.
"""

from __future__ import annotations

import asyncio  # noqa: TID253 - the engine knows it
import hashlib
import json
import math
import re
import unicodedata
from datetime import datetime, timezone  # `UTC` is nothing that the engine knows
from typing import Any

PASSAGES = {"quick": 1, "standard": 3, "deep": 6, "1": 1, "2": 3, "3": 6}
"""Passages that a source is quoted with at most, by depth."""
OWN_FILES = "clawhive-out/"
"""Where runs leave their files: an old report is no source of the next one."""
MAX_PASSAGE = 700
"""Characters of one passage; a longer paragraph becomes several."""
MAX_READ = 40
"""Files that are read at most; of more, those that hold the query's rarer words most often."""
MAX_SEARCHED = 6
"""Words of the query that folders are searched for."""
MAX_FOLDERS = 8
"""Folders and patterns that are searched at most."""
MAX_LINES = 10_000
MAX_MATCHES = 1_000
MAX_RESULTS = 20
"""Results of a web search that are looked at."""
MAX_PAGES = 30
"""Pages that are read at most, the best of the search first."""
AT_ONCE = 8
"""Pages that are read at the same time."""
NOT_THERE = ("tool_not_found", "tool_not_enabled")
"""The answers of a call where no plugin offers the tool."""
NO_PAGE = ("page_failed", "not_readable", "encrypted", "unsupported_media_type")
"""The answers for what is no page: then its snippet is no source either."""
SAVED = "pages"
"""The provider of pages that were saved: what it found is read already."""
MAX_QUOTE = 280
"""Characters of a quotation in the summary."""
MAX_SUMMARY = 5
K1, B = 1.5, 0.75
"""The usual constants of BM25; a passage gains nothing by being shorter than most."""

# Scripts without spaces between words, and Hangul, whose words carry their particles.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Joiners are letters to some engines of regular expressions and not to others.
WORD = re.compile(f"[{UNSPACED}]+|[^\\W_\u200c\u200d{UNSPACED}]+")
PARTICLES = re.compile("[\u3040-\u309f]+")
PARAGRAPH = re.compile(r"(?:[^\S\n]*\S[^\n]*(?:\n|$))+")
HEADING = re.compile(r"#{1,6}[ \t]+(.+?)[ \t#]*$")
ITEM = re.compile(r"(?<=\n)[ \t]*(?:[-*+]|\d{1,3}[.)]|\|)[ \t]")
MARKER = re.compile(r"(?:[-*+]|\d{1,3}[.)]|\|)[ \t]+")
BREAK = re.compile(
    "[.!?\u2026\u3002\uff01\uff1f][\"')\\]\u201d\u2019\u300d\u300f]*\\s+|[\u3002\uff01\uff1f]|\n"
)
"""Where a sentence or a line ends."""
MARKUP = re.compile(r"\\([\\`*_\[\]<>#|])")
"""A character that `escaped` took its meaning from."""
ENDINGS = ("ies", "ied", "ing", "es", "ed", "s")
VOWEL = re.compile("[aeiouy]")
SHORT = 3
"""Letters of a word that is too short to have an ending."""
STOP = frozenset(
    [
        *("a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "for", "from"),
        *("has", "have", "how", "i", "in", "is", "it", "its", "of", "on", "or", "that", "the"),
        *("their", "there", "this", "to", "was", "we", "were", "what", "when", "where", "which"),
        *("who", "why", "will", "with", "you", "your"),
    ]
)
"""Words that say nothing of what is asked."""


async def gather(input: dict[str, Any], ctx: Any) -> dict[str, Any]:
    """Collect sources by tools and return the report, its evidence, and what was left out."""
    query = one_line(input["query"])
    warnings: list[dict[str, str]] = []
    terms = query_terms(query)
    if not terms:
        warn(warnings, "no_words", query, "it holds no word that documents can be searched for")
    sources = await read_documents(ctx, named(input.get("documents")), query, warnings)
    limit = input.get("max_sources", 5)
    sources += await read_pages(ctx, await search_web(ctx, query, warnings), limit, warnings)
    depth = PASSAGES[str(input.get("depth", "standard"))]
    chosen = choose(query, sources, limit, depth, warnings)
    answer = await ask_model(ctx, query, chosen, input.get("model"), warnings)
    return written(query, chosen, warnings, answer)


def conclude(input: dict[str, Any], ctx: Any) -> dict[str, Any]:  # noqa: ARG001 - each handler's signature
    """Return the number of sources, or that nothing was found: the report is written by then."""
    if not input["sources"]:
        message = "no source says anything on the question; report.md tells what was tried"
        return {"error": "nothing_found", "message": message}
    return {"sources": len(input["sources"])}


async def read_pages(
    ctx: Any, found: list[dict[str, Any]], limit: int, warnings: list[dict[str, str]]
) -> list[dict[str, Any]]:
    """Return search results with their pages' text for their snippets, as far as pages are read."""
    real = [each for each in found if not each["made_up"] and each["provider"] != SAVED]
    sources = [each for each in found if each["made_up"] or each["provider"] == SAVED]
    real = real[: min(MAX_PAGES, 2 * limit + 2)]
    for first in range(0, len(real), AT_ONCE):
        some = real[first : first + AT_ONCE]
        asked = [ctx.call("web.extract", {"url": each["url"]}) for each in some]
        answers = await asyncio.gather(*asked)
        for source, answer in zip(some, answers):
            keep_page(sources, source, answer, warnings)
        if any(problem(each) in NOT_THERE for each in answers):
            return sources + real[first + AT_ONCE :]
    return sources


def keep_page(
    sources: list[dict[str, Any]],
    source: dict[str, Any],
    answer: Any,
    warnings: list[dict[str, str]],
) -> None:
    """Keep a page that was read as a source, or say why it is none."""
    why, url = problem(answer), source["url"]
    if why in NOT_THERE:
        sources.append(source)
    elif why in NO_PAGE:
        warn(warnings, why, url, answer["message"])
    elif why is not None:
        warn(warnings, why, url, f"only its snippet was read: {answer['message']}")
        sources.append(source)
    elif not answer["text"].strip():
        warn(warnings, "no_text", url, "the page holds no text")
    elif any(each["sha256"] == answer["sha256"] for each in sources):
        warn(warnings, "duplicate", url, "another page holds the same text")
    else:
        if answer["truncated"]:
            text = f"only its first {len(answer['text'])} characters were read"
            warn(warnings, "truncated", url, text)
        facts = ("url", "text", "sha256", "retrieved_at", "truncated")
        read = {key: answer[key] for key in facts}
        title = answer["title"] or source["title"]
        sources.append({**source, **read, "title": title, "read": True})


async def ask_model(
    ctx: Any,
    query: str,
    chosen: list[dict[str, Any]],
    model: Any,
    warnings: list[dict[str, str]],
) -> list[str]:
    """Return the sentences of a model that the chosen passages support, with their places."""
    places: list[tuple[int, dict[str, Any]]] = []
    texts: list[str] = []
    for number, source in enumerate(chosen, 1):
        for passage in source["passages"]:
            places.append((number, passage))
            texts.append(source["text"][passage["start"] : passage["end"]])
    if not model or not texts:
        return []
    asked = {"question": query, "passages": texts[:60], "model": model}
    said = await ctx.call("web.answer", asked)
    if problem(said) is not None:
        warn(warnings, problem(said), "model", said["message"])
        return []
    for each in said["dropped"]:
        warn(warnings, "unsupported", "model", f"left out, {each['reason']}: {each['text']}")
    lines: list[str] = []
    for each in said["sentences"]:
        marks: list[str] = []
        for cite in each["cites"]:
            number, passage = places[cite - 1]
            marks.append(f"[{number}], characters {passage['start']} to {passage['end']}")
        lines.append(f"{escaped(each['text'])} ({'; '.join(marks)})")
    return lines


async def read_documents(
    ctx: Any, patterns: list[str], query: str, warnings: list[dict[str, str]]
) -> list[dict[str, Any]]:
    """Read the files that are named, and those in folders and patterns that fit the query."""
    paths = [each for each in patterns if not is_pattern(each)]
    globs = [each for each in patterns if is_pattern(each)]
    if len(paths) > MAX_READ:
        left = f"{len(paths) - MAX_READ} of {len(paths)} documents were not read"
        warn(warnings, "too_many", paths[MAX_READ], left)
    sources: list[dict[str, Any]] = []
    for path in paths[:MAX_READ]:
        answer = await ctx.call("file.read", {"path": path, "limit": MAX_LINES})
        if problem(answer) == "not_a_file":
            globs.append(f"{path.rstrip('/')}/**")
        else:
            keep(sources, path, answer, warnings)
    for source in sources:
        source["named"] = True
    found = await search_folders(ctx, globs, query, warnings)
    known = [each["url"] for each in sources]
    wanted = [path for path in found if path not in known]
    room = max(0, MAX_READ - len(sources))
    if len(wanted) > room:
        text = f"{len(wanted)} files hold words of the query; the best {room} were read"
        warn(warnings, "too_many", ", ".join(globs), text)
    for path in wanted[:room]:
        answer = await ctx.call("file.read", {"path": path, "limit": MAX_LINES})
        keep(sources, path, answer, warnings)
    return sources


async def search_folders(
    ctx: Any, globs: list[str], query: str, warnings: list[dict[str, str]]
) -> list[str]:
    """Return the files that fit a pattern and hold words of the query, the best first."""
    scores: dict[str, float] = {}
    if len(globs) > MAX_FOLDERS:
        left = f"{len(globs) - MAX_FOLDERS} of {len(globs)} folders and patterns were not searched"
        warn(warnings, "too_many", globs[MAX_FOLDERS], left)
    for pattern in globs[:MAX_FOLDERS]:
        folder, name, fits = read_pattern(pattern)
        total = 0
        for text in search_texts(query):
            given = {"pattern": text, "path": folder, "glob": name, "limit": MAX_MATCHES}
            answer = await ctx.call("file.search", {**given, "ignore_case": True})
            if problem(answer) is not None:
                warn(warnings, problem(answer), pattern, answer["message"])
                break
            total = max(total, answer["files_searched"])
            add_scores(scores, answer, fits, own=pattern.startswith(OWN_FILES))
            if answer["truncated"] and "matches" not in str(answer["reason"]):
                warn(warnings, "cut", pattern, f"not all was searched: {answer['reason']}")
                break
        else:
            if total == 0:
                warn(warnings, "not_found", pattern, "no text file that can be read fits this")
    return sorted(scores, key=lambda path: (-scores[path], path))


def add_scores(
    scores: dict[str, float], answer: dict[str, Any], fits: re.Pattern[str], *, own: bool
) -> None:
    """Add what one word says for each file: the fewer files hold it, the more."""
    lines: dict[str, int] = {}
    for match in answer["matches"]:
        path = match["path"]
        if fits.fullmatch(path) and own == path.startswith(OWN_FILES):
            lines[path] = lines.get(path, 0) + 1
    weight = math.log(1 + max(answer["files_searched"], len(lines)) / max(1, len(lines)))
    for path, count in lines.items():
        scores[path] = scores.get(path, 0.0) + weight * (1 + math.log(count))


async def search_web(ctx: Any, query: str, warnings: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Return the results of `web.search` as sources, each with its snippet as its text."""
    answer = await ctx.call("web.search", {"query": query})
    if problem(answer) is not None:
        warn(warnings, problem(answer), "web.search", answer["message"])
        return []
    items = answer if isinstance(answer, list) else answer.get("items", [])
    sources: list[dict[str, Any]] = []
    known: list[str] = []
    for item in items[:MAX_RESULTS]:
        url = str(item.get("url", ""))
        if not re.match(r"https?://\S", url) or url in known:
            continue
        known.append(url)
        provider = str(item.get("provider", "web"))
        text = str(item.get("snippet", ""))
        made = {"title": str(item.get("title", "")) or url, "kind": "web", "provider": provider}
        sources.append({**source_of(url, text), **made, "made_up": provider == "stub"})
    return sources


def keep(
    sources: list[dict[str, Any]], path: str, answer: Any, warnings: list[dict[str, str]]
) -> None:
    """Keep a file that was read as a source, or say why it is none."""
    if problem(answer) is not None:
        warn(warnings, problem(answer), path, answer["message"])
        return
    text = answer["text"]
    if "\0" in text:
        warn(warnings, "not_text", path, "it holds binary data")
        return
    source = source_of(path, text)
    same = [each for each in sources if each["sha256"] == source["sha256"]]
    if same:
        if same[0]["url"] != path:
            warn(warnings, "duplicate", path, f"it holds the same text as {same[0]['url']}")
        return
    if answer["truncated"]:
        source["truncated"] = True
        warn(warnings, "truncated", path, f"only its first {len(text)} characters were read")
    sources.append(source)


def source_of(url: str, text: str) -> dict[str, Any]:
    """Return a source: where it is, when it was read, its text and the text's hash."""
    return {
        "kind": "document",
        "title": title_of(text) or url.rpartition("/")[2],
        "url": url,
        "provider": "file.read",
        "retrieved_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "sha256": hashlib.sha256(text.encode("utf-8")).hexdigest(),
        "text": text,
        "truncated": False,
        "made_up": False,
    }


def compose(
    query: str,
    sources: list[dict[str, Any]],
    warnings: list[dict[str, str]],
    options: dict[str, Any],
) -> dict[str, Any]:
    """Return report and evidence of sources: of the best, the best passages."""
    per_source = PASSAGES[str(options.get("depth", "standard"))]
    warnings = list(warnings)
    chosen = choose(query, sources, options.get("max_sources", 5), per_source, warnings)
    return written(query, chosen, warnings, [])


def written(
    query: str, chosen: list[dict[str, Any]], warnings: list[dict[str, str]], answer: list[str]
) -> dict[str, Any]:
    """Return the report of chosen sources in its forms, and its evidence."""
    evidence = evidence_of(query, chosen, warnings)
    return {
        "report": report_of(query, chosen, warnings, answer),
        "html": html_of(query, chosen, warnings, answer),
        "evidence": json.dumps(evidence, ensure_ascii=False, indent=2) + "\n",
        "sources_json": json.dumps(evidence["sources"], ensure_ascii=False, indent=2) + "\n",
        "sources": evidence["sources"],
        "passages": len(evidence["items"]),
        "warnings": warnings,
    }


def choose(
    query: str,
    sources: list[dict[str, Any]],
    max_sources: int,
    per_source: int,
    warnings: list[dict[str, str]],
) -> list[dict[str, Any]]:
    """Return the best sources with their best passages; made-up ones only where there is room."""
    for source in sources:
        source["passages"] = passages_of(source["text"])
    score_all(sources, query_terms(query))
    useful: list[dict[str, Any]] = []
    for source in sources:
        is_snippet = source["kind"] == "web" and not source.get("read")
        hits = [each for each in source["passages"] if each["score"] > 0 or is_snippet]
        hits.sort(key=lambda each: (-each["score"], each["start"]))
        if hits or is_snippet:
            best = hits[0]["score"] if hits else 0.0
            useful.append({**source, "passages": hits[:per_source], "score": best})
        elif source.get("named") or source.get("read"):
            warn(warnings, "no_match", source["url"], "it holds no word of the query")
    useful.sort(key=lambda each: (each["made_up"], -each["score"]))
    if any(each["made_up"] for each in useful[:max_sources]):
        text = "it is the stub, which makes its results up; name documents, or set up a search"
        warn(warnings, "stub", "web.search", text)
    left_out = [each for each in useful[max_sources:] if not each["made_up"]]
    if left_out:
        left = f"{len(left_out)} further sources were left out"
        warn(warnings, "left_out", "max_sources", left)
    return useful[:max_sources]


def score_all(sources: list[dict[str, Any]], terms: list[str]) -> None:
    """Give each passage its BM25 score among all passages, lowered where words are missing."""
    every = [passage for source in sources for passage in source["passages"]]
    having = dict.fromkeys(terms, 0)
    total = 0
    for source in sources:
        for passage in source["passages"]:
            text = source["text"][passage["start"] : passage["end"]]
            found = words(passage["section"] + "\n" + text)
            counts: dict[str, int] = {}
            for word in found:
                if word in having:
                    counts[word] = counts.get(word, 0) + 1
            for word in counts:
                having[word] += 1
            passage["counts"], passage["length"] = counts, len(found)
            total += len(found)
    average = total / len(every) if total else 1.0
    for passage in every:
        score = 0.0
        for word, count in passage["counts"].items():
            rarity = math.log(1 + (len(every) - having[word] + 0.5) / (having[word] + 0.5))
            norm = K1 * (1 - B + B * max(1.0, passage["length"] / average))
            score += rarity * count * (K1 + 1) / (count + norm)
        coverage = len(passage["counts"]) / len(terms) if terms else 0.0
        passage["score"] = score * (0.25 + 0.75 * coverage)


def words(text: str) -> list[str]:
    """Return the words of a text as they are compared; of unspaced scripts each pair of letters."""
    found: list[str] = []
    for word in WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        if re.match(f"[{UNSPACED}]", word):
            found += [word[at : at + 2] for at in range(max(1, len(word) - 1))]
        else:
            found.append(stem(word))
    return found


def stem(word: str) -> str:
    """Return an English word without its commonest endings; any other as it is."""
    if not word.isascii() or len(word) <= SHORT or word.endswith(("ss", "eed")):
        return word
    short = word
    for ending in ENDINGS:
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= SHORT and VOWEL.search(rest):
            short = rest
            break
    if short != word and short[-1] == short[-2] and short[-1] not in "aeiouls":
        short = short[:-1]
    bare = short.rstrip("ey")
    return bare if VOWEL.search(bare) else short


def query_terms(query: str) -> list[str]:
    """Return the different words of a query, without those that every text holds."""
    found = list(dict.fromkeys(words(query)))
    telling = [word for word in found if word not in STOP and not PARTICLES.fullmatch(word)]
    return telling or found


def search_texts(query: str) -> list[str]:
    """Return what folders are searched for: the longest words, so that the rarest come first."""
    return sorted(query_terms(query), key=lambda text: (-len(text), text))[:MAX_SEARCHED]


def passages_of(text: str) -> list[dict[str, Any]]:
    """Return a text's paragraphs, long ones in pieces: offsets, and the heading above each."""
    found: list[dict[str, Any]] = []
    section = ""
    for match in PARAGRAPH.finditer(text):
        start, end = trimmed(text, match.start(), match.end())
        heading = HEADING.match(text[start:end].partition("\n")[0].rstrip())
        if heading:
            section = one_line(heading.group(1))
            if "\n" not in text[start:end]:
                continue
        begin = start
        for item in ITEM.finditer(text[start:end]):
            found += pieces_of(text, begin, start + item.start(), section)
            begin = start + item.start()
        found += pieces_of(text, begin, end, section)
    return found


def pieces_of(text: str, start: int, end: int, section: str) -> list[dict[str, Any]]:
    """Return a paragraph or an item of a list as passages."""
    found: list[dict[str, Any]] = []
    while start < end:
        cut = cut_at(text, start, end)
        first, last = trimmed(text, start, cut)
        if WORD.search(text[first:last]):
            found.append({"start": first, "end": last, "section": section, "score": 0.0})
        start = cut
    return found


def cut_at(text: str, start: int, end: int) -> int:
    """Return where a passage that begins at `start` ends: at a sentence, a space, or the limit."""
    if end - start <= MAX_PASSAGE:
        return end
    window = text[start : start + MAX_PASSAGE]
    ends = [match.end() for match in BREAK.finditer(window)]
    if ends and ends[-1] > MAX_PASSAGE // 3:
        return start + ends[-1]
    space = window.rfind(" ")
    return start + (space + 1 if space > MAX_PASSAGE // 3 else MAX_PASSAGE)


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without white space around it."""
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def evidence_of(
    query: str, chosen: list[dict[str, Any]], warnings: list[dict[str, str]]
) -> dict[str, Any]:
    """Return what is quoted, each piece with its place in the text of its source."""
    shared = ("url", "retrieved_at", "sha256")
    told = ("kind", "title", *shared, "provider", "truncated", "made_up")
    items: list[dict[str, Any]] = []
    for number, source in enumerate(chosen, 1):
        for passage in source["passages"]:
            start, end = passage["start"], passage["end"]
            items.append(
                {
                    "snippet": source["text"][start:end],
                    "source_index": number,
                    **{key: source[key] for key in shared},
                    "span": {"start": start, "end": end},
                    "section": passage["section"],
                }
            )
    sources = [
        {"index": number, **{key: source[key] for key in told}, "characters": len(source["text"])}
        for number, source in enumerate(chosen, 1)
    ]
    return {
        "schema": "evidence/1",
        "query": query,
        "sources": sources,
        "items": items,
        "warnings": warnings,
    }


def html_of(
    query: str, chosen: list[dict[str, Any]], warnings: list[dict[str, str]], answer: list[str]
) -> str:
    """Return the report as a page of HTML without scripts and styles."""
    title = tagless(one_line(query))
    lines = ["<!doctype html>", '<html><head><meta charset="utf-8">', f"<title>{title}</title>"]
    lines += ["</head><body>", f"<h1>{title}</h1>"]
    lines += [f"<p>{tagless(unescaped(each))}</p>" for each in answer]
    for number, source in enumerate(chosen, 1):
        name, url = tagless(one_line(source["title"])), tagless(one_line(source["url"]))
        place = f'<a href="{url}">{url}</a>' if source["kind"] == "web" else f"<code>{url}</code>"
        mark = " (made up by the stub)" if source["made_up"] else ""
        lines.append(f'<h2 id="source-{number}">{number}. {name}{mark}</h2><p>{place}</p>')
        for passage in source["passages"]:
            start, end = passage["start"], passage["end"]
            quote = tagless(visible(source["text"][start:end]))
            lines.append(f"<blockquote>{quote}</blockquote><p>characters {start} to {end}</p>")
    if not chosen:
        lines.append("<p>No source was found.</p>")
    notes = [tagless(f"{each['about']}: {each['message']} ({each['code']})") for each in warnings]
    lines += [f"<p>{one_line(each)}</p>" for each in notes]
    return "\n".join([*lines, "</body></html>", ""])


def report_of(
    query: str,
    chosen: list[dict[str, Any]],
    warnings: list[dict[str, str]],
    answer: list[str],
) -> str:
    """Return the report as Markdown."""
    lines = [f"# {escaped(query)}", ""]
    if answer:
        lines += ["## Answer", "", *[f"- {each}" for each in answer], ""]
    lines += ["## Summary", "", *summary_of(chosen), ""]
    if chosen:
        lines += ["## Findings", ""]
        for number, source in enumerate(chosen, 1):
            lines += findings_of(number, source)
        lines += ["## Sources", ""]
        lines += [source_line(number, source) for number, source in enumerate(chosen, 1)]
        lines.append("")
    if warnings:
        lines += ["## Notes", ""]
        lines += [
            f"- {code(each['about'])}: {each['message']} ({each['code']})" for each in warnings
        ]
        lines.append("")
    return "\n".join(lines)


def summary_of(chosen: list[dict[str, Any]]) -> list[str]:
    """Return the best passage of each of the best sources, or that there is none."""
    if not chosen:
        return ["No source was found."]
    real = [each for each in chosen if not each["made_up"]]
    lines: list[str] = []
    if not real:
        lines += [
            "No real source was found: what follows was made up by the stub `web.search`.",
            "",
        ]
    for number, source in enumerate(chosen[:MAX_SUMMARY], 1):
        if source["passages"] and (source in real or not real):
            best = source["passages"][0]
            quote = quoted(source["text"][best["start"] : best["end"]])
            lines.append(f"- {quote} [{number}]")
    return lines or ["The sources below hold no text to quote."]


def findings_of(number: int, source: dict[str, Any]) -> list[str]:
    """Return the quotations from one source."""
    mark = " (made up by the stub)" if source["made_up"] else ""
    lines = [f"### {number}. {escaped(source['title'])}{mark}", ""]
    if not source["passages"]:
        lines += ["It has no text to quote.", ""]
    for passage in source["passages"]:
        text = visible(source["text"][passage["start"] : passage["end"]])
        lines += [f"> {untagged(line)}".rstrip() for line in text.split("\n")]
        place = f"characters {passage['start']} to {passage['end']}"
        section = f", in “{escaped(passage['section'])}”" if passage["section"] else ""
        lines += ["", f"[{number}], {place}{section}", ""]
    return lines


def source_line(number: int, source: dict[str, Any]) -> str:
    """Return one entry of the list of sources."""
    place = link(source["url"]) if source["kind"] == "web" else code(source["url"])
    facts = [f"retrieved {source['retrieved_at']}", f"SHA-256 {source['sha256']}"]
    if source["kind"] == "web":
        facts.append(f"found by {code(source['provider'])}")
    if source["made_up"]:
        facts.append("made up by the stub, no search was done")
    if source["truncated"]:
        facts.append(f"cut after {len(source['text'])} characters")
    return f"{number}. {escaped(source['title'])}: {place} ({'; '.join(facts)})"


def named(documents: Any) -> list[str]:
    """Return paths and patterns, each once; a text is one of them, or a JSON list of them."""
    if isinstance(documents, str):
        try:
            value = json.loads(documents)
        except ValueError:
            value = documents
        documents = value if isinstance(value, list) else [documents]
    paths = [str(each).strip() for each in documents or []]
    return list(dict.fromkeys(each.removeprefix("./") or "." for each in paths if each))


def is_pattern(path: str) -> bool:
    """Whether a path has wildcards."""
    return re.search(r"[*?\[]", path) is not None


def read_pattern(pattern: str) -> tuple[str, str, re.Pattern[str]]:
    """Return the folder that a pattern starts in, how its files are called, and what paths fit."""
    fixed: list[str] = []
    parts = pattern.split("/")
    while len(parts) > 1 and not is_pattern(parts[0]):
        fixed.append(parts.pop(0))
    folder = "/".join(fixed) or ("/" if pattern.startswith("/") else ".")
    name = "*" if parts[-1] in {"", "**"} else parts[-1]
    start = "" if folder == "." else re.escape(folder.rstrip("/")) + "/"
    inside = [segment_pattern(part) + "/" if part != "**" else "(?:[^/]+/)*" for part in parts[:-1]]
    last = ".*" if parts[-1] in {"", "**"} else segment_pattern(parts[-1])
    return folder, name, re.compile(start + "".join(inside) + last, re.DOTALL)


def segment_pattern(part: str) -> str:
    """Return the regular expression of one segment of a pattern."""
    found = ""
    for piece in re.findall(r"\[!?\]?[^\]]*\]|\*+|\?|.", part, re.DOTALL):
        if piece[0] == "*":
            found += "[^/]*"
        elif piece == "?":
            found += "[^/]"
        elif piece[0] == "[" and piece[1:-1] not in {"", "!"}:
            found += class_pattern(piece[1:-1])
        else:
            found += re.escape(piece)
    return found


def class_pattern(inside: str) -> str:
    """Return the regular expression of what stands between `[` and `]`."""
    negated = inside[0] == "!"
    letters = inside[1:] if negated else inside
    found, at = "", 0
    while at < len(letters):
        first, last = letters[at], letters[at]
        if letters[at + 1 : at + 2] == "-" and at + 2 < len(letters):
            last = letters[at + 2]
            at += 2
        at += 1
        if first <= last:
            found += re.escape(first) + ("-" + re.escape(last) if first < last else "")
    if negated:
        return f"[^/{found}]"
    return f"[{found}]" if found else "(?!)"


def title_of(text: str) -> str:
    """Return a text's first heading, empty where it has none near its start."""
    for line in text[:4000].split("\n"):
        heading = HEADING.match(line.rstrip())
        if heading:
            return one_line(heading.group(1))
    return ""


def problem(answer: Any) -> Any:
    """Return the code of a refusal or error, None for anything else."""
    code_of = answer.get("error") if isinstance(answer, dict) else None
    return code_of if isinstance(code_of, str) else None


def warn(warnings: list[dict[str, str]], code_of: Any, about: str, message: str) -> None:
    """Note what the reader must know of a source that was left out or cut."""
    warnings.append({"code": str(code_of), "about": about, "message": one_line(message)})


def one_line(text: str) -> str:
    """Return a text as one line that can be written anywhere."""
    return " ".join(visible(text).split())


def visible(text: str) -> str:
    """Return a text without what would steer a terminal or turn a line around."""
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n")
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t\u200d" else "\ufffd" for c in text)


def quoted(text: str) -> str:
    """Return a passage as one line, cut at a sentence or a word where it is long."""
    line = one_line(text)
    line = MARKER.sub("", line, count=1) if MARKER.match(line) else line
    if len(line) > MAX_QUOTE:
        ends = [match.end() for match in BREAK.finditer(line[:MAX_QUOTE])]
        space = line.rfind(" ", 0, MAX_QUOTE)
        cut = ends[-1] if ends and ends[-1] > MAX_QUOTE // 3 else max(space, 0) or MAX_QUOTE
        line = line[:cut].rstrip() + " …"
    return f"“{untagged(line)}”"


def escaped(text: str) -> str:
    """Return a text as one line without meaning for Markdown."""
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", one_line(text))


def tagless(text: str) -> str:
    """Return a text without meaning for HTML."""
    for letter, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot"), ("'", "#39")):
        text = text.replace(letter, f"&{name};")
    return text


def unescaped(text: str) -> str:
    """Return what `escaped` made of a text, as it was."""
    return MARKUP.sub("\\1", text)


def untagged(text: str) -> str:
    """Return Markdown without HTML tags: a quotation brings no elements of its own."""
    return re.sub(r"<(?=[A-Za-z/!?])", r"\\<", text)


def code(text: str) -> str:
    """Return a name as Markdown shows it unchanged."""
    line = one_line(text)
    return f"`` {line} ``" if "`" in line else f"`{line}`"


def link(url: str) -> str:
    """Return an address as a link of Markdown."""
    return "<" + re.sub(r"\s", "%20", one_line(url).replace("<", "%3C").replace(">", "%3E")) + ">"
