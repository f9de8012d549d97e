/* What the programs in the kernel and their loader share: the values of the maps. Plain C. */
#ifndef PASSING_DATAPLANE_BPF_CONSTANTS_H
#define PASSING_DATAPLANE_BPF_CONSTANTS_H

#ifdef __bpf__
#include <linux/types.h>
typedef __u8 uint8_t;
typedef __u16 uint16_t;
typedef __u32 uint32_t;
typedef __u64 uint64_t;
#define PASSING_WIRE_NO_STDINT
#endif
#include "../../wire/wire.h"

#define PASSING_BPF_MOST_JOBS 1024
#define PASSING_BPF_MOST_PLACES 65536 /* members x lanes, of all jobs */
#define PASSING_BPF_MOST_PORTS 64     /* of the switch: interfaces */
/* Ethernet, IPv6, UDP: what comes before a packet, at most. */
#define PASSING_BPF_MOST_HEADERS 62

/* What is so for as long as the programs are loaded. */
struct passing_bpf_settings {
  uint8_t address[16]; /* that members send to; IPv4 in its IPv6 form */
  uint16_t port;       /* lane l uses port + l mod ports */
  uint16_t ports;
  uint32_t elements; /* E */
};

/* One installation of a job (docs/protocol.md section 3), in host order. Replaced as a whole, never edited.
 */
struct passing_bpf_job {
  uint64_t key;
  uint64_t everyone; /* the full bitmap */
  uint64_t departed;
  uint32_t epoch;
  uint32_t installation;
  uint32_t first_slot;
  uint32_t slots; /* S */
  uint32_t first_sequence;
  uint32_t first_place; /* of its members: member m's lane l at + m * lanes + l */
  uint32_t index;       /* of its passing_bpf_tally */
  uint16_t members;
  uint8_t lanes;
  uint8_t unused;
};

/* What programs note of a job. */
struct passing_bpf_tally {
  uint64_t completed; /* chunks */
  uint32_t crowd;     /* most members behind one port, as far as they were heard */
  uint32_t unused;
};

/* Where a member's lane is. The address is pinned when the job is installed; the way there is learnt from the
 * last packet that passed all checks. */
struct passing_bpf_place {
  uint8_t ip[16];
  uint64_t mac;       /* the six bytes as they stand, then two of zero */
  uint32_t interface; /* 0: not heard yet */
  uint16_t port;      /* in network order */
  uint16_t unused;
};

/* One version of a slot (section 4.1), but for its sums, which are in a map of their own. */
struct passing_bpf_version {
  uint64_t bitmap;
  uint32_t installation; /* 0: nobody's */
  uint32_t sequence;
  uint32_t tag;
  uint16_t word;
  uint16_t count;
  uint16_t first;
  uint16_t second;
  uint32_t poison; /* a passing_slot_state: absent, or why it is poisoned */
};

/* Counters of section 4.4. Drops come in the order of the checks, as in wire/packet.h. */
enum passing_bpf_counter {
  PASSING_BPF_PACKETS_IN,
  PASSING_BPF_BYTES_IN,
  PASSING_BPF_PACKETS_OUT,
  PASSING_BPF_BYTES_OUT,
  PASSING_BPF_RETRANSMISSIONS,
  PASSING_BPF_ADDS,
  PASSING_BPF_RESULTS,
  PASSING_BPF_RESULTS_AGAIN,
  PASSING_BPF_DUPLICATES,
  PASSING_BPF_NOTICES,
  PASSING_BPF_NOTICES_AGAIN,
  PASSING_BPF_STATUS_ANSWERS,
  PASSING_BPF_SEND_FAILURES,
  PASSING_BPF_TRAINS, /* several packets in one, uncut: the way from a member is set up wrongly */
  PASSING_BPF_TOO_SHORT,
  PASSING_BPF_BAD_MAGIC,
  PASSING_BPF_BAD_VERSION,
  PASSING_BPF_BAD_TYPE,
  PASSING_BPF_BAD_FLAGS,
  PASSING_BPF_BAD_COUNT,
  PASSING_BPF_BAD_LENGTH,
  PASSING_BPF_BAD_WORD,
  PASSING_BPF_UNKNOWN_JOB,
  PASSING_BPF_WRONG_KEY,
  PASSING_BPF_WRONG_EPOCH,
  PASSING_BPF_BAD_MEMBER,
  PASSING_BPF_BAD_LANE,
  PASSING_BPF_WRONG_SOURCE,
  PASSING_BPF_WRONG_SEQUENCE,
  PASSING_BPF_WRONG_COUNT,
  PASSING_BPF_COUNTERS
};

struct passing_bpf_counters {
  uint64_t value[PASSING_BPF_COUNTERS];
};

#endif
