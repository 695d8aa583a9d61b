"""What the codes about plugins mean: errors of loading, and the findings CH01nn."""

from __future__ import annotations

from clawhive_core.diagnostics.explanation import Explanation

_SYNC = "Run `clawhive plugins sync` in the plugin's folder and release it anew."

PLUGIN_ERRORS: tuple[Explanation, ...] = (
    Explanation(
        "module_missing",
        "The plugin's module is not there",
        "The entry point names a module that is not installed, or that is no package with an "
        "`__init__.py`. The plugin is left out.",
        "Install the plugin again; as its author, correct the entry point in `pyproject.toml`.",
    ),
    Explanation(
        "import_failed",
        "The plugin's code cannot be imported",
        "Importing the module raised an error, often because something that it needs is not "
        "installed. Only this plugin is left out.",
        "The message holds the error; `clawhive plugins check NAME` shows it with its place.",
    ),
    Explanation(
        "manifest_missing",
        "The plugin has no manifest",
        "The package holds no `clawhive-plugin.toml`. Policy, search and `--help` read that file "
        "and not the code, so the plugin is not used without it.",
        _SYNC,
    ),
    Explanation(
        "manifest_differs",
        "The plugin's code is not what its manifest says",
        "A tool's schema, level, risk, effects or sinks differ between code and manifest. The "
        "manifest is the contract, so the plugin's tools are withdrawn.",
        _SYNC,
    ),
    Explanation(
        "manifest_unwritable",
        "The manifest cannot be written",
        "`clawhive plugins sync` found what belongs into `clawhive-plugin.toml` and could not "
        "write the file. The old one is unchanged.",
        "Mend the rights of the folder, or run it on a checkout instead of an installed copy.",
    ),
    Explanation(
        "incompatible_hook_api",
        "The plugin is written for another version of the hooks",
        "The manifest's `hook_api` is a version that this ClawHive does not offer. The plugin is "
        "not imported.",
        "Install a version of the plugin, or of ClawHive, that fits; the message names both.",
    ),
    Explanation(
        "invalid_entry_point",
        "The plugin's entry point cannot be used",
        "An entry point in the group `clawhive.plugins` names the plugin's id and its module. "
        "This one has an id or a module that cannot be read.",
        'Write it like `web = "clawhive_web"` and install the plugin again.',
    ),
    Explanation(
        "invalid_hook",
        "A hook cannot be registered",
        "A function with the name of a hook has another signature, is a wrapper, or gives "
        "something that the hook does not take. The whole plugin is rolled back.",
        "Compare it with the example in `docs/reference/hooks.md`.",
    ),
    Explanation(
        "hook_failed",
        "A hook raised an error",
        "The plugin's own code failed while it was asked what it contributes. The whole plugin "
        "is rolled back and the others go on.",
        "The message holds the error; `clawhive plugins check NAME` repeats it.",
    ),
    Explanation(
        "invalid_tool",
        "A function cannot be a tool",
        "A tool needs annotated parameters by name, a valid tool name, and effects with known "
        "verbs. The function given to `@tool` lacks one of them.",
        "Change the function as the message says; its place is `FILE:LINE`.",
    ),
    Explanation(
        "duplicate_plugin",
        "Two distributions claim one plugin id",
        "Two installed distributions have an entry point of the same name. Neither is loaded, "
        "since nobody could say whose tools would run.",
        "Uninstall one of the two that the message names.",
    ),
    Explanation(
        "plugin_order_cycle",
        "Plugins want to be loaded after each other",
        "The `after` and `before` of some manifests form a circle, which the message prints.",
        "Put the plugins into `[plugins] order`, which goes before the manifests.",
    ),
    Explanation(
        "plugin_disabled",
        "The plugin is switched off",
        "The plugin is in `plugins.disabled`, is left out by `--no-plugins`, or is not among "
        "`plugins.enabled`. Its code is not imported.",
        "Take it off that list; `clawhive config show --origin` says where it stands.",
    ),
    Explanation(
        "no_plugin",
        "There is no such plugin",
        "The name is no installed plugin's id, and the folder is no plugin's source: its "
        "`pyproject.toml` is missing or declares no entry point.",
        "List the installed ones with `clawhive plugins`, or make one with "
        "`clawhive plugins new NAME`.",
    ),
    Explanation(
        "already_exists",
        "The folder is there already",
        "A new plugin or project is never written over something that exists.",
        "Choose another name, or move the folder away.",
    ),
    Explanation(
        "invalid_name",
        "The name cannot be used",
        "The name becomes part of a distribution, a module and of tools' names, and all of these "
        "must allow its characters.",
        "Use the name that the message suggests.",
    ),
)

PLUGIN_FINDINGS: tuple[Explanation, ...] = (
    Explanation(
        "CH0101",
        "An option or setting names a plugin that is not installed",
        "A name in `[plugins]`, or given to `--no-plugins`, is no installed plugin's id. It has "
        "no effect, and may be misspelt.",
        "Compare it with the ids that `clawhive plugins` prints.",
    ),
    Explanation(
        "CH0102",
        "The plugin's code cannot be imported",
        "Importing the module that the entry point names raised an error or found nothing.",
        "Mend what the message says, most often a missing dependency.",
    ),
    Explanation(
        "CH0103",
        "The plugin has no manifest",
        "The package holds no `clawhive-plugin.toml`, so that its tools cannot be known without "
        "running its code.",
        _SYNC,
    ),
    Explanation(
        "CH0104",
        "The plugin's manifest cannot be read",
        "The file `clawhive-plugin.toml` is not TOML, or holds a key or value of the wrong kind.",
        _SYNC,
    ),
    Explanation(
        "CH0105",
        "The plugin is written for another version of the hooks",
        "The `hook_api` in the manifest is not among the versions that this ClawHive offers.",
        "Release the plugin for the version that the message names.",
    ),
    Explanation(
        "CH0106",
        "A tool's code and manifest differ in what it may do",
        "Schema, level, risk, effects or sinks of the tool are not those of the manifest. Users "
        "decided about the manifest, so at the first call the plugin would be withdrawn.",
        _SYNC,
    ),
    Explanation(
        "CH0107",
        "A tool's code and manifest differ in their text",
        "Description, examples or annotations were changed and the manifest was not. Models are "
        "shown the old text.",
        _SYNC,
    ),
    Explanation(
        "CH0108",
        "The manifest is out of date",
        "Hooks, commands or the layout of the manifest are not what `clawhive plugins sync` would "
        "write. A hook that the manifest does not list is never called.",
        _SYNC,
    ),
    Explanation(
        "CH0109",
        "A hook cannot be registered or called",
        "A hook has the wrong signature, raised an error, or gave something that it may not give.",
        "Compare it with the example in `docs/reference/hooks.md`.",
    ),
    Explanation(
        "CH0110",
        "Two distributions claim one plugin id",
        "Both have an entry point of this name in the group `clawhive.plugins`, and neither is "
        "loaded.",
        "Uninstall one of the two.",
    ),
    Explanation(
        "CH0111",
        "A function cannot be a tool",
        "What `@tool` stands above lacks annotations, has parameters that JSON cannot name, or "
        "declares effects with unknown verbs.",
        "Change the function as the message says.",
    ),
    Explanation(
        "CH0112",
        "A tool has no description",
        "A model chooses tools by their descriptions, and this function has no docstring.",
        "Write one sentence that says what the tool does.",
    ),
    Explanation(
        "CH0113",
        "A plugin contributes nothing",
        "The module that the entry point names has neither tools nor hooks.",
        "Import them in that module, or name the right module in the entry point.",
    ),
    Explanation(
        "CH0114",
        "Dynamic tools without a provider",
        'The manifest says `tools = "dynamic"`, and the plugin lacks the hook '
        "`clawhive_tool_providers` that would list them.",
        'Remove `tools = "dynamic"`, or implement the hook.',
    ),
    Explanation(
        "CH0115",
        "The entry point cannot be used",
        "The entry point in the group `clawhive.plugins` has an id or module that cannot be read.",
        'Write it like `web = "clawhive_web"` in `pyproject.toml`.',
    ),
    Explanation(
        "CH0116",
        "A tool declares itself safe and is admitted as guarded",
        "A tool outside every sandbox engine is safe only where it changes nothing beyond "
        "ClawHive's own state: the run's folder, the own memory, a sandbox. This one says that it "
        "writes elsewhere, runs programs or has side effects, or its level says so and no effect. "
        "Its calls ask a person once; the catalog and `clawhive tools show` say why.",
        'Write `risk="guarded"`; or name only what it touches: `fs.write:${run}/{}` for the run\'s '
        "folder, `side_effects=False` with level L0 where its requests only read.",
    ),
)
