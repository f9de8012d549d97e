#include "inhost/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/shortage.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace passing::inhost {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Expected<Descriptor> make_memory() {
  // Hardened systems refuse memory that could be executed; older kernels do not know the flag.
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Descriptor memory(::memfd_create("passing", kFlags | MFD_NOEXEC_SEAL));
  if (!memory && errno == EINVAL) memory = Descriptor(::memfd_create("passing", kFlags));
  if (memory) return memory;
  const int error = errno;
  const char* remedy = "";
  if (error == ENOSYS || error == EPERM || error == EACCES)
    remedy = "; allow the call in the container's seccomp profile or the security policy (SELinux, AppArmor)";
  return fail(ErrorCode::no_capacity, fmt::format("cannot make shared memory (memfd_create: {}){}{}",
                                                  std::strerror(error), remedy, shortage_remedy(error)));
}

Expected<Segment> no_mapping(std::size_t bytes, int error) {
  return fail(ErrorCode::no_capacity,
              fmt::format("cannot map {} MB of shared memory ({}); raise the limit of address space (ulimit "
                          "-v), or give each rank less shared memory",
                          bytes >> 20, std::strerror(error)));
}

}  // namespace

Expected<std::pair<Segment, Descriptor>> Segment::create(std::size_t bytes) {
  auto memory = make_memory();
  if (!memory) return tl::unexpected(memory.error());
  // A file beyond this limit is answered by a signal that ends the process.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur) {
    return fail(ErrorCode::no_capacity,
                fmt::format("cannot make {} MB of shared memory: the limit of file sizes is {} MB; raise it "
                            "(ulimit -f), or give each rank less shared memory",
                            bytes >> 20, limit.rlim_cur >> 20));
  }
  if (ftruncate(memory->get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(memory->get(), F_ADD_SEALS, kSeals) != 0) {
    return fail(ErrorCode::no_capacity,
                fmt::format("cannot make {} MB of shared memory ({})", bytes >> 20, std::strerror(errno)));
  }
  auto segment = map(*memory, bytes);
  if (!segment) return tl::unexpected(segment.error());
  return std::pair(std::move(*segment), std::move(*memory));
}

Expected<Segment> Segment::map(const Descriptor& memory, std::size_t bytes) {
  struct stat about {};
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(memory.get(), &about) != 0 ||
      static_cast<std::size_t>(about.st_size) != bytes)
    return fail(ErrorCode::disagreement, "was given shared memory that is not what it should be");
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory.get(), 0);
  if (data == MAP_FAILED) return no_mapping(bytes, errno);
  Segment segment;
  segment.data_ = static_cast<std::byte*>(data);
  segment.bytes_ = bytes;
  return segment;
}

Segment::~Segment() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Expected<void> commit(std::byte* data, std::size_t bytes) {
  while (bytes > 0 && madvise(data, bytes, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno == EINVAL) break;  // kernels before 5.14 cannot say
    return fail(ErrorCode::no_capacity,
                fmt::format("cannot get {} KB of shared memory ({}); raise the memory limit of the container "
                            "(cgroup), or give each rank less shared memory",
                            bytes >> 10, std::strerror(errno)));
  }
  return {};
}

void release(std::byte* data, std::size_t bytes) {
  if (bytes > 0) madvise(data, bytes, MADV_REMOVE);
}

}  // namespace passing::inhost
