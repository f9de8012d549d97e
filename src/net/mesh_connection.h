// One connection of a mesh: what is to be written, and what is being read.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <unordered_map>

#include "net/mesh.h"

namespace passing::net {

// Beyond the credit so many of one tag are announced; more wait at the sender.
constexpr std::uint32_t kAnnouncedPerTag = 16;
// So many in all, large ones too, unless a receive asks for one: a quarter of the credit for small ones.
constexpr std::size_t kMostAnnounced = kCredit / kRecord / 4;

enum class FrameType : std::uint32_t {
  hello = 1,  ///< by the lower rank, which connects: its number (tag), the group (id), challenge and proof
  message,    ///< a small message: its tag, and the data; id: credit that goes back
  announce,   ///< a large one: its tag, length and id
  want,       ///< back: send the one with this tag and id
  refuse,     ///< back: nobody will take it
  data,       ///< the next part of the data of the one with this id
  call,       ///< from a higher rank, on a connection for nothing else: connect to me
  expect,     ///< a receive waits for a large message with this tag and length, under this id
  deliver,    ///< the next part of the message for the receive with this id
  challenge,  ///< first on a connection, by whoever accepts it: a number to be used in the proof
  credit,     ///< back: receives have taken messages that cost so much (tag)
  notice,     ///< an urgent message; costs nothing
  welcome,    ///< the answer to hello and call: the proof of whoever has accepted the connection
  held,       ///< one with this tag is held back, and none with it is announced; id: how many such tags are
  ask,        ///< back: a receive waits for a message that equals this tag where the id has ones
};

struct FrameHeader {
  std::uint32_t magic = kMagic;
  FrameType type{};
  std::uint64_t tag = 0;
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;  ///< of the data that follows; announce: of the message

  static constexpr std::uint32_t kMagic = 0x5041534D;
  static constexpr std::uint32_t kVersion = 3;  ///< in the upper half of the tag, until a connection is open
};

struct Mesh::Frame {
  FrameHeader header;
  const void* data = nullptr;
  std::size_t bytes = 0;
  TransferPtr transfer;    // ends when the frame has been written; may be empty
  bool urgent = false;     // goes before those that are not: what asks for data must not wait behind data
  std::string own;         // the data, if nobody else keeps it
  std::uint64_t bond = 0;  // which frame of `out` binds the receive of this slice; 0: it is bound
};

// In the order of what belongs together.
struct Mesh::Connection {  // NOLINT(clang-analyzer-optin.performance.Padding)
  int descriptor = -1;
  std::uint32_t peer = UINT32_MAX;  // unknown until hello
  Time stranger_until = 0;          // by when it must have said who it is; 0: it is no stranger
  /// What is to come before anything else may; then nothing is left to be said but frames.
  enum class Stage : std::uint8_t { challenge, hello, welcome, open };
  Stage stage = Stage::open;
  Meeting meeting;
  std::string greeting;  // what goes out before all frames
  bool connecting = false;
  bool broken = false;
  bool watching_output = false;
  bool calling = false;    // asks the peer to connect, and carries nothing
  bool called = false;     // the peer asks us to connect, and says nothing more
  bool waiting = false;    // for the peer to connect; has no socket
  bool unwritten = false;  // has frames since the last flush
  Time sent_away_at = 0;   // when the peer first closed it before it was open; 0: never
  Time dial_at = 0;        // when it is dialled again; 0: it is not about to be

  std::deque<Frame> out;
  std::deque<Frame> bulk;       // slices of large messages: what is in `out` goes between them
  std::size_t written = 0;      // of the frame that has begun, which goes on before any other:
  bool bulk_has_begun = false;  // the first slice, or the first of `out`
  std::size_t passed = 0;       // what of `out` has passed the next slice,
  bool bulk_is_due = false;     // which was so much that it should go,
  bool bulk_has_turn = false;   // and goes next
  std::uint64_t bonds = 0;      // frames that bind receives have such numbers,
  std::uint64_t bound = 0;      // and up to this one they have gone out
  bool bulk_is_next() const { return bulk_has_begun || bulk_has_turn; }
  bool bulk_may_go() const { return !bulk.empty() && bulk.front().bond <= bound; }
  // It is time for a slice, but a frame of `out` has begun. With more behind it, a write might end within
  // another one each time, and the slice would never go.
  bool must_end_frame() const { return bulk_is_due && written > 0 && !bulk_has_begun; }
  bool urgent_is_next() const { return !out.empty() && out.front().urgent; }
  bool has_frames() const { return !out.empty() || !bulk.empty(); }
  // Ours, waiting for an answer, by tag and id; those of one tag in order.
  std::map<std::pair<std::uint64_t, std::uint64_t>, TransferPtr> announced;
  std::size_t unclaimed = 0;  // what of our small messages may be without a receive there
  std::unordered_map<std::uint64_t, std::uint32_t> beyond;          // announced for want of credit, by tag
  std::unordered_map<std::uint64_t, std::deque<TransferPtr>> held;  // not even announced, by tag
  std::map<std::uint64_t, std::uint64_t> hidden;  // tags of which some are held and none is announced, in the
  std::unordered_map<std::uint64_t, std::uint64_t> hidden_since;  // order of telling; and that order, by tag
  std::uint64_t next_hidden = 0;
  bool holds = false;                    // the peer has hidden tags
  std::deque<std::uint64_t> held_order;  // their tags; some may have gone
  struct WaitingNotice {
    Frame frame;
    std::size_t before = 0;  // how many are still held that were sent between the notice before it and this
  };
  std::deque<WaitingNotice> notices;  // must not pass what is held
  std::uint64_t notices_gone = 0;     // the number of the first of them
  std::size_t held_behind = 0;        // how many are held that were sent after the last of them
  std::size_t owed = 0;               // what receives have taken here, and the peer has not been told
  struct Expectation {
    std::uint64_t id = 0;
    std::uint64_t bytes = 0;
  };
  std::unordered_map<std::uint64_t, std::deque<Expectation>> expectations;  // theirs, by tag, in order
  std::unordered_map<std::uint64_t, TransferPtr> hoped;                     // what they answer

  std::array<std::byte, 4096> stash;  // read, not yet looked at
  std::size_t stashed = 0;
  FrameHeader header;
  std::size_t header_bytes = 0;
  bool in_payload = false;
  std::size_t payload_bytes = 0;
  TransferPtr target;                                       // whose buffer the payload goes to,
  std::string kept;                                         // or it is kept here
  bool dropped = false;                                     // or nowhere
  std::unordered_map<std::uint64_t, TransferPtr> expected;  // theirs, that we want
};

}  // namespace passing::net
