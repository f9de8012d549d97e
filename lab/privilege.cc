#include "privilege.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

namespace passing::lab {
namespace {

bool tell(const char* file, const std::string& line) {
  std::ofstream stream(file);
  stream << line;
  stream.close();
  return !stream.fail();
}

// The setting that forbids it, with the value that would allow it; empty: none that we know.
std::string forbidden_by() {
  struct Setting {
    const char* file;
    const char* name;
    long forbids;
    const char* allows;
  };
  for (const Setting& setting :
       {Setting{"/proc/sys/user/max_user_namespaces", "user.max_user_namespaces", 0, "1000"},
        {"/proc/sys/kernel/unprivileged_userns_clone", "kernel.unprivileged_userns_clone", 0, "1"},
        {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
         "kernel.apparmor_restrict_unprivileged_userns", 1, "0"}}) {
    std::ifstream stream(setting.file);
    if (long value = 0; stream >> value && value == setting.forbids)
      return fmt::format("{}={}", setting.name, setting.allows);
  }
  return "";
}

tl::unexpected<Error> refused(const char* step) {
  const int problem = errno;
  const std::string setting = forbidden_by();
  return fail(
      ErrorCode::invalid_argument,
      fmt::format("a lab makes network namespaces: run it as root (sudo passing lab ...){}; without root it "
                  "needs a user namespace, which this system refuses ({}: {})",
                  setting.empty() ? "" : fmt::format(", or allow user namespaces (sysctl {})", setting), step,
                  std::strerror(problem)));
}

}  // namespace

Expected<void> gain_privilege() {
  if (geteuid() == 0) return {};
  const auto user = geteuid();
  const auto group = getegid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS) != 0) return refused("unshare");
  if (!tell("/proc/self/setgroups", "deny") || !tell("/proc/self/uid_map", fmt::format("0 {} 1", user)) ||
      !tell("/proc/self/gid_map", fmt::format("0 {} 1", group)))
    return refused("uid_map");
  // `ip netns` keeps its names in /run/netns, and we what we know in /run/passing-lab.
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("lab", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") != 0 || mkdir("/run/netns", 0755) != 0)
    return refused("mount");
  return {};
}

}  // namespace passing::lab
