"""Which room may include what."""

import dataclasses
import tomllib

TABLE = ("<!-- the plan: tools/house --write -->", "<!-- end of the plan -->")
SOURCES = (".h", ".c", ".cc", ".inc")


@dataclasses.dataclass
class Room:
    path: str
    what: str
    may: list = dataclasses.field(default_factory=list)
    libraries: list = dataclasses.field(default_factory=list)
    pure: bool = False
    program: bool = False


class Plan:
    def __init__(self, rooms, everywhere, effects):
        self.rooms = {room.path: room for room in rooms}
        self.everywhere = everywhere
        self.effects = effects

    @staticmethod
    def read(path):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return Plan([Room(**each) for each in data["room"]], data["everywhere"], data["effects"])

    def room_of(self, name):
        """The room with the longest path that the file is below, or None."""
        below = [path for path in self.rooms if name.startswith(path + "/")]
        return self.rooms[max(below, key=len)] if below else None

    def may(self, room, other):
        return (room.path == other.path or other.path in self.everywhere or other.path in room.may
                or ("*" in room.may and not other.program))

    def rows(self):
        yield "| room | what is in it | may include |"
        yield "|---|---|---|"
        for room in self.rooms.values():
            names = ", ".join(f"`{path.removeprefix('src/')}`" for path in room.may)
            may = "everything" if "*" in room.may else names or "–"
            yield f"| `{room.path}/`{' (pure)' if room.pure else ''} | {room.what} | {may} |"

    def write_table(self, page):
        before, _, rest = page.read_text(encoding="utf-8").partition(TABLE[0])
        after = rest.partition(TABLE[1])[2]
        page.write_text(before + "\n".join([TABLE[0], "", *self.rows(), "", TABLE[1]]) + after, encoding="utf-8")


def begins(name, beginnings):
    return any(name == each or (each.endswith("/") and name.startswith(each)) or each == "*" for each in beginnings)


def is_library(name):
    """Not of the language (no dot, no slash), nor of the system."""
    system = ("arpa/", "linux/", "net/", "netinet/", "sys/")
    plain = {"ctype.h", "errno.h", "fcntl.h", "ifaddrs.h", "netdb.h", "poll.h", "pthread.h", "sched.h", "signal.h",
             "spawn.h", "stdarg.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h", "strings.h", "time.h",
             "unistd.h", "dlfcn.h", "math.h", "stdbool.h", "inttypes.h"}
    return not ("." not in name and "/" not in name) and not name.startswith(system) and name not in plain


def check(tree, plan):
    yield from check_plan(tree, plan)
    for name in tree.of(*SOURCES):
        room = plan.room_of(name)
        if room is None:
            yield f"{name}: is in no room of docs/rooms.toml"
            continue
        for line, written, target in tree.includes(name):
            complaint = complaint_about(plan, room, written, target)
            if complaint:
                yield f"{name}:{line}: {complaint}"
    text = tree.text("docs/architecture.md")
    if "\n".join([TABLE[0], "", *plan.rows(), "", TABLE[1]]) not in text:
        yield "docs/architecture.md: its table is not docs/rooms.toml: run tools/house --write"


def complaint_about(plan, room, written, target):
    if target is not None:
        other = plan.room_of(target)
        if other is not None and not plan.may(room, other):
            return f"{room.path}/ may not include {written}: {other.path}/ is not among its rooms in docs/rooms.toml"
    elif is_library(written) and not begins(written, room.libraries):
        return f"{room.path}/ may not include <{written}>: it is not among its libraries in docs/rooms.toml"
    if target is None and room.pure and begins(written, plan.effects):
        return f"{room.path}/ is pure, and <{written}> is not"
    return None


def check_plan(tree, plan):
    """Rooms that are there, known to those that name them, in no circle; pure ones know only pure ones."""
    for room in plan.rooms.values():
        if not any(name.startswith(room.path + "/") for name in tree.names):
            yield f"docs/rooms.toml: {room.path}: there is no such folder"
        for path in [*room.may, *plan.everywhere]:
            other = plan.rooms.get(path)
            if path != "*" and other is None:
                yield f"docs/rooms.toml: {room.path}: it may include {path}, which is no room"
            elif other and other.program:
                yield f"docs/rooms.toml: {room.path}: it may include {path}, which is a program"
            elif other and room.pure and not other.pure and path not in plan.everywhere:
                yield f"docs/rooms.toml: {room.path} is pure, and may include {path}, which is not"
    done = set()
    for path in plan.rooms:
        circle = find_circle(plan, path, [], done)
        if circle:
            yield f"docs/rooms.toml: a circle: {' -> '.join(circle)}"


def find_circle(plan, path, way, done):
    if path in way:
        return [*way[way.index(path):], path]
    if path in done or path not in plan.rooms:
        return None
    for other in plan.rooms[path].may:
        circle = find_circle(plan, other, [*way, path], done)
        if circle:
            return circle
    done.add(path)
    return None
