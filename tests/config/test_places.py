import json
import tomllib

from hypothesis import given
from hypothesis import strategies as st

from clawhive_core.config.places import find_places

bare = st.text("abcXYZ019_-", min_size=1, max_size=4)
loose = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=4)
segment = st.one_of(
    bare.map(lambda name: (name, name)),
    loose.map(lambda name: (name, json.dumps(name, ensure_ascii=False))),
    loose.map(lambda name: (name, json.dumps(name).replace("\\u007f", "\x7f"))).filter(
        lambda pair: "\\ud" not in pair[1]
    ),
    loose.filter(lambda name: "'" not in name).map(lambda name: (name, f"'{name}'")),
)
key = st.lists(segment, min_size=1, max_size=3)
value = st.sampled_from(
    [
        "1",
        '"a = 1 # ] }"',
        "'[x]'",
        '"\\""',
        "''",
        '""',
        "1990-05-17",
        '"""\n[no]\nno = 1\n"""',
        '"""a""b"""',
        '"""x\\""""',
        '""""quoted""""',
        "'''\nno = '1'\n'''",
        "''''q''''",
        '""""""',
        '[1, [2], "]", # ] no = 1\n {a = "}"}, ]',
        "[\n  'x', # [table]\n  '''\n  a = 1''',\n]",
        '{a = 1, b = {c = "}"}}',
        "[]",
        "{}",
    ]
)
space = st.sampled_from(["", " ", "\t", "  "])
comment = st.sampled_from(["", " # x = 1", "# [no]"])
end = st.sampled_from(["\n", "\r\n", "\n\n", "\n  \n# x = 1\n"])


@st.composite
def lines(draw):
    gap = draw(space)
    name = f"{gap}.{gap}".join(text for _name, text in draw(key))
    form = draw(st.sampled_from(["pair", "pair", "pair", "table", "array"]))
    tail = draw(comment) + draw(end)
    if form == "pair":
        return f"{gap}{name}{draw(space)}={draw(space)}{draw(value)}{tail}"
    return (f"{gap}[{gap}{name}{gap}]" if form == "table" else f"{gap}[[{name}]]") + tail


def written_keys(table, above=()):
    """Every key path that tomllib sees, through tables and arrays of tables."""
    for name, item in table.items():
        yield (*above, name)
        if isinstance(item, dict):
            yield from written_keys(item, (*above, name))
        if isinstance(item, list):
            for index, entry in enumerate(item):
                if isinstance(entry, dict):
                    yield from written_keys(entry, (*above, name, index))


def valid(parts):
    """The longest document of these lines that TOML allows."""
    text = ""
    for part in parts:
        try:
            tomllib.loads(text + part)
        except tomllib.TOMLDecodeError:
            continue
        text += part
    return text


@given(st.lists(lines(), max_size=8))
def test_every_key_is_found_where_it_is_written(parts):
    text = valid(parts)
    places = find_places(text)
    data = tomllib.loads(text)
    keys = set(written_keys(data))
    for path, span in places.items():
        if isinstance(path[-1], str):
            assert path in keys
            written = text[span.start : span.end]
            assert next(iter(tomllib.loads(f"{written} = 1"))) == path[-1]
        line = text.split("\n")[span.line - 1]
        assert line[span.column - 1 : span.end_column - 1] == text[span.start : span.end]
    for path in data:
        assert (path,) in places


def test_keys_of_tables_arrays_and_dotted_names_have_their_own_places():
    text = (
        'a.b = 1\n"c d" = """\nx = 1\n"""\n[t.u]\n v = {w = 1}\n'
        "[[r]]\nk = 1\n[[r]]\nk = 2\n[r.s]\nm = 3\n"
    )
    found = {path: (span.line, span.column) for path, span in find_places(text).items()}
    assert found == {
        ("a",): (1, 1),
        ("a", "b"): (1, 3),
        ("c d",): (2, 1),
        ("t",): (5, 2),
        ("t", "u"): (5, 4),
        ("t", "u", "v"): (6, 2),
        ("r",): (7, 3),
        ("r", 0): (7, 3),
        ("r", 0, "k"): (8, 1),
        ("r", 1): (9, 3),
        ("r", 1, "k"): (10, 1),
        ("r", 1, "s"): (11, 4),
        ("r", 1, "s", "m"): (12, 1),
    }


@given(st.text(st.sampled_from("[]{}\"'=.#\n ab1"), max_size=40))
def test_a_text_that_is_no_toml_is_scanned_to_its_end_all_the_same(text):
    find_places(text)
