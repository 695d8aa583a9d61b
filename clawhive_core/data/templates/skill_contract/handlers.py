"""The handlers of {{id}}: one function for each exported tool, run in the sandbox."""

LAST = "skills.{{id}}.last"


async def count_words(input, ctx):
    words = len(input["text"].split())
    before = await ctx.read(LAST)
    await ctx.save(LAST, words)
    return {"words": words, "before": before}
