// Programs on interfaces, and how they come off again.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "dataplane/bpf/bpf.h"

namespace passing::dataplane {

struct Interface {
  std::string name;
  unsigned index = 0;
};

/// An interface belongs to one switch at a time: held until the end of its process, however that comes (the
/// name of a socket, in the network namespace). -1: another one has it.
int claim(const Interface& interface);

/// One program on several interfaces. Off with the destructor; after a crash too: XDP holds on by a
/// descriptor that the kernel closes, and a filter of tc is removed by a process that waits for the end of
/// ours.
class Attachment {
 public:
  static Expected<std::unique_ptr<Attachment>> make(Hook hook, int program,
                                                    const std::vector<Interface>& interfaces);
  ~Attachment();
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Attachment() = default;
  Expected<void> attach_xdp(int program, const Interface& interface);
  Expected<void> attach_tc(int program, const Interface& interface);
  Expected<void> start_keeper();

  struct Filter {
    Interface interface;
    unsigned program = 0;  // its number
  };
  static void remove(const Filter& filter);

  std::vector<int> links_;       // of XDP
  std::vector<Filter> filters_;  // of tc
  pid_t keeper_ = -1;
  int keeper_pipe_ = -1;
  std::vector<std::string> warnings_;
};

}  // namespace passing::dataplane
