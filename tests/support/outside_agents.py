"""Command-line agents for the tests of `--scaffold command`: files that a test writes to a folder and shows to the box."""

from pathlib import Path

ASKING = """
import json, os, urllib.error, urllib.request

def request(body, path="/chat/completions"):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    asked = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + path, content, headers)
    try:
        with urllib.request.urlopen(asked) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()

def ask(messages, **more):
    status, text = request({"model": "any", "messages": messages, **more})
    assert status == 200, text
    return json.loads(text)["choices"][0]["message"]
"""

# Runs the shell commands that its model calls for, until it calls none.
SHELL = """
import json, subprocess, sys
from asking import ask

TOOL = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}
messages = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": sys.stdin.read()}]
while True:
    said = ask(messages, tools=[TOOL])
    messages.append(said)
    if not said.get("tool_calls"):
        break
    for call in said["tool_calls"]:
        command = json.loads(call["function"]["arguments"])["command"]
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout + done.stderr})
print("the agent has ended")
"""


def write_agents(folder: Path, **scripts: str) -> str:
    """The agents as FOLDER/agent/NAME.py, `shell` and the given ones; the folder."""
    place = folder / "agent"
    place.mkdir(exist_ok=True)
    for name, text in {"asking": ASKING, "shell": SHELL, **scripts}.items():
        (place / f"{name}.py").write_text(text)
    return str(place)
