// One connection of a mesh: what is to be written, and what is being read.
#pragma once

#include <deque>
#include <unordered_map>

#include "net/mesh.h"

namespace passing::net {

enum class FrameType : std::uint32_t {
  hello = 1,  ///< first on a connection: the rank (tag) and the group (id)
  message,    ///< a small message: its tag, and the data
  announce,   ///< a large one: its tag, length and id
  want,       ///< back: send the one with this id
  refuse,     ///< back: nobody will take it
  data,       ///< the next part of the data of the one with this id
};

struct FrameHeader {
  std::uint32_t magic = kMagic;
  FrameType type{};
  std::uint64_t tag = 0;
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;  ///< of the data that follows; announce: of the message

  static constexpr std::uint32_t kMagic = 0x5041534D;
};

struct Mesh::Frame {
  FrameHeader header;
  const void* data = nullptr;
  std::size_t bytes = 0;
  TransferPtr transfer;  // ends when the frame has been written; may be empty
  bool urgent = false;   // goes before those that are not
  std::string own;       // the data, if nobody else keeps it
};

struct Mesh::Connection {
  int descriptor = -1;
  std::uint32_t peer = UINT32_MAX;  // unknown until hello
  bool connecting = false;
  bool broken = false;
  bool watching_output = false;

  std::deque<Frame> out;
  std::size_t written = 0;                                   // of the first frame
  std::unordered_map<std::uint64_t, TransferPtr> announced;  // ours, waiting for an answer

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
