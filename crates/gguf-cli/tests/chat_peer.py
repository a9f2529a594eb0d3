"""Renders chat templates with transformers.

Reads a list of [template, variables] as JSON from the file of the argument; prints a list with {"prompt": ...} or {"error": ...} for each.
"""

import json
import sys

from transformers.utils.chat_template_utils import render_jinja_template

with open(sys.argv[1], encoding="utf-8") as file:
    cases = json.load(file)
results = []
for template, variables in cases:
    variables = dict(variables)
    messages = variables.pop("messages")
    try:
        prompts, _ = render_jinja_template([messages], chat_template=template, **variables)
        results.append({"prompt": prompts[0]})
    except Exception as e:
        results.append({"error": f"{type(e).__name__}: {e}"})
json.dump(results, sys.stdout)
