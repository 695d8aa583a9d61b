"""What the codes of failed model calls mean; see `model.failures`."""

from __future__ import annotations

from clawhive_core.diagnostics.explanation import Explanation

MODEL_ERRORS: tuple[Explanation, ...] = (
    Explanation(
        "model_malformed_call",
        "The model's tool calls cannot be read",
        "The provider could not read the tool call that the model wrote, and kept it (Gemini's "
        "`MALFORMED_FUNCTION_CALL`). The model was told so and asked again, twice in one turn, and "
        "did no better. What was done before is kept.",
        "Choose another model with `--model`, or ask for less at once: long or deeply nested "
        "arguments break most often.",
    ),
    Explanation(
        "model_no_answer",
        "The model answered nothing",
        "An answer had neither text nor a tool call. The model was told so and asked again, twice "
        "in one turn, and answered nothing again, which is no success. What was done is kept.",
        "Look at what it was told with `clawhive runs show last`; put it otherwise, or choose "
        "another model.",
    ),
    Explanation(
        "model_refusal",
        "The model declines",
        "The model, or its provider's safety system, stopped instead of answering. Calls in such "
        "an answer are not made.",
        "Put it otherwise, or choose another model.",
    ),
    Explanation(
        "model_content_filter",
        "The provider's filter stopped the answer",
        "The provider held the prompt or the answer back. Calls in such an answer are not made.",
        "Put it otherwise, or choose another model.",
    ),
    Explanation(
        "model_max_tokens",
        "The answer is longer than it may be",
        "The model used up the tokens of one answer before its end; half an answer is none, and "
        "calls in it are not made.",
        "Raise `model.max_tokens`, or ask for less at once.",
    ),
    Explanation(
        "unknown_stop_reason",
        "The model stopped for a reason that is not known",
        "A warning, in `warnings` of the run: the provider gave a reason to stop that ClawHive "
        "does not know, after a text, which is kept as the answer. It may not be whole.",
        "Look the reason up at the provider; update the plugin of the provider.",
    ),
    Explanation(
        "wire_name_collision",
        "Two tools have the same name for a model",
        "A model's API allows fewer characters in a tool's name than ClawHive does, so each name "
        "is written anew for it. Here two names became one, and no call could say which is meant.",
        "Give one of them another name with `[tools.alias]`, or leave its plugin out.",
    ),
    Explanation(
        "quota_exhausted",
        "The provider's credit is used up",
        "The account of this key has no credit or quota left. Asking again does not help.",
        "Raise it at the provider, or use another key or provider.",
    ),
    Explanation(
        "overloaded",
        "The provider is overloaded",
        "The provider answered that it cannot take the request now (HTTP 503 or 529). It was asked "
        "several times, at growing distances.",
        "Try again later, or choose another model with `--model`.",
    ),
    Explanation(
        "connection_failed",
        "The provider cannot be reached",
        "No connection could be made, or it broke before the whole answer was there. It was asked "
        "several times, at growing distances; nothing of a broken answer is used.",
        "Check the network and the base URL; `clawhive doctor` shows which host is used.",
    ),
    Explanation(
        "authentication_failed",
        "The provider does not take the key",
        "The provider answered that the key is wrong, or may not be used for this.",
        "Set the right key in the environment variable that the message names.",
    ),
    Explanation(
        "missing_key",
        "There is no key for the provider",
        "A provider's API needs a key, and neither environment nor configuration holds one.",
        "Set the environment variable that the message names.",
    ),
    Explanation(
        "missing_package",
        "A package that is needed is not installed",
        "A local model needs the package that runs it, and sometimes one that holds its weights; "
        "`skills types` needs the one that writes types.",
        "Run the command that the message ends with.",
    ),
    Explanation(
        "model_not_found",
        "The provider does not know the model",
        "The part after the colon names no model of this provider, or none that this key may use.",
        "Check its spelling in the provider's list of models.",
    ),
    Explanation(
        "invalid_request",
        "The provider does not accept the request",
        "The provider found a parameter, a tool's schema or the order of messages unacceptable; "
        "the message is its own.",
        "If no option of yours caused it, report it together with the message.",
    ),
    Explanation(
        "request_too_large",
        "The conversation is too long for the model",
        "What was sent is larger than the model's context, or than the API takes at once.",
        "Start a new session, offer fewer tools, or choose a model with a larger context.",
    ),
    Explanation(
        "invalid_response",
        "The provider's answer cannot be read",
        "The answer is not what the API promises: no JSON, an unfinished stream, or another shape. "
        "Nothing of it is used.",
        "Check the base URL: a proxy or another API may answer there. Try again.",
    ),
)
