#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "base/shortage.h"
#include "net/hex.h"
#include "net/patience.h"
#include "net/rendezvous.h"

namespace passing::net {
namespace {

namespace fs = std::filesystem;
using Blob = std::string;

std::string random_nonce() {
  std::array<std::uint64_t, 2> words{};
  PASSING_ASSERT(getrandom(words.data(), sizeof words, 0) == sizeof words);
  return to_hex(words[0]) + to_hex(words[1]);
}

std::string this_process() {
  std::array<char, 256> host{};
  static_cast<void>(gethostname(host.data(), host.size() - 1));
  return fmt::format("host {}, process {}", host.data(), getpid());
}

// The same on every machine, unlike std::hash.
std::uint64_t fnv1a(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::optional<std::string> content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return std::nullopt;
  std::string text(static_cast<std::size_t>(std::max<std::streamoff>(0, file.tellg())), 0);
  file.seekg(0);
  if (!file.read(text.data(), static_cast<std::streamsize>(text.size()))) return std::nullopt;
  return text;
}

// The first line of RANK.hello.
struct Hello {
  std::string nonce;
  std::string who;
};

std::optional<Hello> read_hello(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  Hello hello;
  if (!(file >> hello.nonce) || !std::getline(file >> std::ws, hello.who)) return std::nullopt;
  return hello;
}

// One rank's part in a meeting through files. RANK is DIRECTORY/JOB.NUMBER:
//
//   RANK.hello  a nonce, host and process, and in the lines below the blob. Written once.
//   RANK.ready  a digest of the nonces that the rank sees. Written again whenever they change.
//   RANK.done   the digest, once the rank has all blobs.
//
// The ranks have met when every ready has the digest of the hellos that are there now. It covers this
// process's fresh nonce, so no file of an earlier run can have it, and whoever wrote it sees the same
// processes. Two processes that claim one rank notice: one finds the other's nonce in its hello.
//
// Nobody returns before all are done: only then a rank may come again with the same job and replace its
// hello. Rank 0 removes all files then, each done last; a rank whose done has gone knows that all were done.
// Files that stay because someone died do no harm. A hello that vanishes while its rank still needs it (rank
// 0 was removing those of the meeting before) is written again.
class DirectoryMeeting {
 public:
  DirectoryMeeting(const Rendezvous& who, const std::string& directory)
      : who_(who), directory_(directory), patience_(who), nonce_(random_nonce()), hellos_(who.size) {}

  Expected<std::vector<Blob>> run(const Blob& blob) {
    if (auto made = make_directory(); !made) return tl::unexpected(made.error());
    std::vector<Blob> all;
    for (;;) {
      const auto met = look(blob);
      if (!met) return tl::unexpected(met.error());
      if (*met && collect(all)) break;
      if (!nap_for("ready", "come to")) return too_late(who_, place(), missing("ready"));
    }
    if (auto said = write("done", digest_); !said) return tl::unexpected(said.error());
    for (patience_.again(); !everyone_done();) {
      if (!nap_for("done", "read what is in")) return too_late(who_, place(), missing("done"));
    }
    if (who_.rank == 0) remove_all();
    return all;
  }

 private:
  bool nap_for(const char* stage, const char* what) {
    return patience_.nap(
        [&] { return fmt::format("rank {} to {} {}", list(missing(stage)), what, place()); });
  }
  fs::path path(std::uint32_t rank, const char* kind) const {
    return directory_ / fmt::format("{}.{}.{}", who_.job, rank, kind);
  }
  std::string place() const { return fmt::format("directory '{}'", directory_.string()); }

  static tl::unexpected<Error> refused(const std::string& what, int reason) {
    auto failed = system_failure(ErrorCode::invalid_argument, "cannot " + what, reason);
    if (failed.value().code == ErrorCode::invalid_argument)
      failed.value().message += "; set PASSING_DIRECTORY to one that all ranks share and may write";
    return failed;
  }

  Expected<void> make_directory() const {
    std::error_code problem;
    fs::create_directories(directory_, problem);
    if (!problem) return {};
    return refused("make " + place(), problem.value());
  }

  // Others see the whole file or none of it.
  Expected<void> write(const char* kind, const std::string& text) const {
    const fs::path target = path(who_.rank, kind);
    const fs::path draft = target.string() + "." + nonce_;
    std::error_code problem;
    errno = 0;
    std::ofstream file(draft, std::ios::binary);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.close();
    if (file) {
      fs::rename(draft, target, problem);
    } else {
      problem = {errno != 0 ? errno : EIO, std::generic_category()};
    }
    if (!problem) return {};
    const int reason = problem.value();
    fs::remove(draft, problem);
    return refused("write '" + target.string() + "'", reason);
  }

  // Reads who is there and says so; true when everyone says the same.
  Expected<bool> look(const Blob& blob) {
    // A network file system may hide new files until someone opens the directory.
    std::error_code ignored;
    const fs::directory_iterator refresh(directory_, ignored);
    if (auto mine = keep_hello(blob); !mine) return tl::unexpected(mine.error());
    for (std::uint32_t rank = 0; rank < who_.size; ++rank) hellos_[rank] = read_hello(path(rank, "hello"));
    std::string nonces;
    for (const auto& hello : hellos_) nonces += (hello ? hello->nonce : "") + "\n";
    digest_ = to_hex(fnv1a(nonces));
    if (content(path(who_.rank, "ready")) != digest_) {
      if (auto said = write("ready", digest_); !said) return tl::unexpected(said.error());
    }
    return missing("ready").empty();
  }

  // Writes it unless it is there; fails if it is another process's.
  Expected<void> keep_hello(const Blob& blob) {
    const auto there = read_hello(path(who_.rank, "hello"));
    if (there && there->nonce == nonce_) return {};
    if (there && said_hello_) {
      return fail(
          ErrorCode::disagreement,
          fmt::format("two processes claim rank {} of job '{}': {}, and {}; give every process a rank, "
                      "and every run a job name, of its own",
                      who_.rank, who_.job, this_process(), there->who),
          {static_cast<std::uint16_t>(who_.rank)});
    }
    said_hello_ = true;
    return write("hello", fmt::format("{} {}\n", nonce_, this_process()) + blob);
  }

  // Ranks that have not said hello, or not the digest of what this one sees in their file of that kind.
  std::vector<std::uint16_t> missing(const char* kind) const {
    std::vector<std::uint16_t> ranks;
    for (std::uint32_t rank = 0; rank < who_.size; ++rank) {
      if (!hellos_[rank] || content(path(rank, kind)) != digest_)
        ranks.push_back(static_cast<std::uint16_t>(rank));
    }
    return ranks;
  }

  // False if a hello has changed after all.
  bool collect(std::vector<Blob>& all) const {
    all.clear();
    for (std::uint32_t rank = 0; rank < who_.size; ++rank) {
      auto text = content(path(rank, "hello"));
      if (!text || text->compare(0, nonce_.size(), hellos_[rank]->nonce) != 0) return false;
      all.push_back(text->substr(text->find('\n') + 1));
    }
    return true;
  }

  bool everyone_done() const {
    return content(path(who_.rank, "done")) != digest_ || missing("done").empty();
  }

  void remove_all() const {
    std::error_code ignored;
    for (std::uint32_t rank = 0; rank < who_.size; ++rank) {
      for (const char* kind : {"hello", "ready", "done"}) fs::remove(path(rank, kind), ignored);
    }
  }

  Rendezvous who_;
  fs::path directory_;
  Patience patience_;
  std::string nonce_;
  bool said_hello_ = false;
  std::vector<std::optional<Hello>> hellos_;  // by rank, as last seen
  std::string digest_;                        // of their nonces
};

}  // namespace

Exchange directory_exchange(const Rendezvous& who, const std::string& directory) {
  return [=](const Blob& blob) { return DirectoryMeeting(who, directory).run(blob); };
}

}  // namespace passing::net
