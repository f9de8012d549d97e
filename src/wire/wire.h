/* The wire format, docs/protocol.md section 2. Plain C: shared with the BPF dataplane. */
#ifndef PASSING_WIRE_WIRE_H
#define PASSING_WIRE_WIRE_H

#ifndef PASSING_WIRE_NO_STDINT /* BPF programs bring their own fixed-width types */
#include <stdint.h>
#endif

#define PASSING_MAGIC 0x5053
#define PASSING_VERSION 1
#define PASSING_HEADER_BYTES 36
#define PASSING_MAX_MEMBERS 64        /* below one switch: the width of the bitmap */
#define PASSING_MAX_TREE_MEMBERS 1023 /* in the whole tree: 10-bit class counts */
#define PASSING_MAX_LANES 64
#define PASSING_MAX_SLOTS 32768 /* per lane */
#define PASSING_BLOCK_ELEMENTS 2112
#define PASSING_MAX_ELEMENTS 2112 /* per packet */
#define PASSING_REPORT_WORDS 5

enum passing_type {
  PASSING_CONTRIBUTION = 1,
  PASSING_RESULT = 2,
  PASSING_NOTICE = 3,
  PASSING_ABORT = 4,
  PASSING_STATUS_REQUEST = 5,
  PASSING_STATUS = 6,
};

enum passing_flags {
  PASSING_FLAG_AGAIN = 1,
};

enum passing_word {
  PASSING_WORD_NONE = 0,
  PASSING_WORD_FINITE_MIN = 1,
  PASSING_WORD_FINITE_MAX = 254,
  PASSING_WORD_NONFINITE = 0xFFFE,
  PASSING_WORD_UNKNOWN = 0xFFFF,
};

enum passing_slot_state {
  PASSING_SLOT_ABSENT = 0,
  PASSING_SLOT_FILLING = 1,
  PASSING_SLOT_COMPLETE = 2,
  PASSING_SLOT_DISAGREEMENT = 3,
  PASSING_SLOT_ABORTED = 4,
};

/* All fields big-endian. */
struct passing_header {
  uint16_t magic;
  uint8_t version;
  uint8_t type;
  uint32_t job;
  uint8_t key[8]; /* bytes, not uint64_t: the struct must not ask for 8-byte alignment */
  uint32_t epoch;
  uint32_t sequence;
  uint32_t tag;
  uint16_t word;
  uint16_t count;
  uint16_t member;
  uint8_t lane;
  uint8_t flags;
};

/* The payload of NOTICE and STATUS: PASSING_REPORT_WORDS big-endian words. */
struct passing_report {
  uint32_t bitmap_high;
  uint32_t bitmap_low;
  uint32_t tag;
  uint32_t state;
  uint32_t members; /* first << 16 | second */
};

#endif
