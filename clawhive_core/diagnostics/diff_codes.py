"""What the codes about a change of contracts mean: `clawhive skills diff`."""

from __future__ import annotations

from clawhive_core.diagnostics.explanation import Explanation
from clawhive_core.diagnostics.export_codes import LEFT_OUT

_ZERO = "In a version 0.x the minor is the place of what breaks."

DIFF_FINDINGS: tuple[Explanation, ...] = (
    Explanation(
        "CH0705",
        "A tool is gone, and its users were not told in time",
        "A tool is deleted or renamed 30 days after that was announced, and not before the "
        "`removal_date` that was announced. `skills check` holds a contract against the lock, and "
        "its users are named; `skills diff` against an older version, whose `announced` or commit "
        f"counts. {LEFT_OUT}",
        "Export the tool still, deprecated, and remove it when the time is up; where nobody uses "
        "it: clawhive skills lock.",
    ),
    Explanation(
        "CH0801",
        "A change breaks, and the bump of api_version is too small",
        "What worked under the old contract, or the lock, fails now: a tool is gone, an input is "
        "refused, an output is new, a call needs a subscription, more rights or a person, or may "
        "be made less often. The message shows a value where schemas differ. It needs the next "
        f"major version. {_ZERO} {LEFT_OUT}",
        "Write the version that the message gives, or take the change back; never released: "
        "clawhive skills lock.",
    ),
    Explanation(
        "CH0802",
        "A change adds, and api_version stays",
        "There is a new tool, a schema takes or promises more, a tool is deprecated, or access is "
        "wider. Without the next minor version nobody can ask for it by `min_version`. A change of "
        "a schema that is not decided counts as one.",
        "Write the version that the message gives.",
    ),
    Explanation(
        "CH0803",
        "A schema is written otherwise, and api_version stays",
        "It takes the same values, which is proven; locks and approvals that hold the schema's "
        "hash see a change all the same.",
        "Nothing needs doing; the next minor version would say it.",
    ),
    Explanation(
        "CH0831",
        "Whether a change breaks is not known",
        "Two versions could not be compared: schemas beyond what the comparison decides, or a "
        "level or risk that follows from permissions on one side only.",
        "Compare both by hand; write the next major version where something breaks.",
    ),
    Explanation(
        "CH0832",
        "An api_version went back",
        "It is lower than it was, or stated no more, so that imports by `min_version` fail.",
        "Write the version that the message gives.",
    ),
    Explanation(
        "CH0833",
        "A bump says more than has changed",
        "Those who import the skill look for what broke, and find nothing.",
        "Nothing needs doing; the message names the version that would do.",
    ),
    Explanation(
        "CH0834",
        "A skill may be granted more than before",
        "`permissions` names a capability that the old version did not cover. That is no change "
        "for those who call its tools, and one for those who run it.",
        "Look at why it is needed.",
    ),
    Explanation(
        "CH0835",
        "A skill is gone that others import from",
        "The place is the import. It fails when the set is loaded, and the importing skill is left "
        "out.",
        "Keep the skill, or remove the import.",
    ),
    Explanation(
        "CH0836",
        "The old version of a skill cannot be compared",
        "Its contract has an error, so that it was loaded nowhere and nobody relies on it.",
        "Nothing needs doing, if the new version is right.",
    ),
    Explanation(
        "CH0837",
        "A contract is a link in the revision",
        "Links of a git revision are not followed, so this file is not compared.",
        "Compare two folders, or put the file itself there.",
    ),
)
