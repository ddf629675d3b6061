/**
 * The parts of the protocol by which writers of replicas store each event once (docs/decisions/043-replicas.md). Each
 * part can be switched off, to show that the model then finds a lost or a doubled event.
 */
export interface Protocol {
  /** Layer 1: the inserts with a lock go to one replica, which is synchronized after a claim and after a switch. */
  pin: boolean
  /** Layer 2: the range of the next insert is committed before it, and a new owner repeats exactly that range. */
  intent: boolean
  /** Layer 3: Keeper drops a second insert with the same token into the same partition of the table. */
  token: boolean
  /** Whether the token has a hash of the rows. */
  tokenHash: boolean
  /** Whether an owner that finds no intent waits until no insert of an earlier owner can run any more. */
  waitsWithoutIntent: boolean
  /** Whether all partitions of both topics that share a lock belong to one writer, which stores one range at a time. */
  oneOwner: boolean
  /**
   * Whether the server refuses an insert after a time that is counted from the writer's last accepted commit. So a
   * writer that was frozen, or that can't reach Kafka, can't insert after this time.
   */
  deadline: boolean
  /**
   * Whether the rows of a repeated insert must be seen in the same part of two replicas before the offset is committed.
   */
  verifiesRepeats: boolean
  /** The same for an insert that left out rows which were stored already. */
  verifiesCopies: boolean
  /** Whether a range is repeated with a new token when Keeper drops rows of it that are not stored. */
  renewsToken: boolean
  /**
   * Whether, for a batch that is too large for one insert, the first half is committed as an intent before it is
   * inserted.
   */
  commitsHalves: boolean
  /** Whether a server that lost its disk refuses inserts of writers that have not synchronized it since. */
  checksServer: boolean
}

/** The protocol of the first design: the three layers, separately for each partition of a topic. */
export const designed: Protocol = {
  pin: true,
  intent: true,
  token: true,
  tokenHash: true,
  waitsWithoutIntent: true,
  oneOwner: false,
  deadline: false,
  verifiesRepeats: false,
  verifiesCopies: false,
  renewsToken: false,
  commitsHalves: false,
  checksServer: true,
}

/** The protocol with the parts that the model has shown to be missing. */
export const corrected: Protocol = {
  ...designed,
  oneOwner: true,
  deadline: true,
  verifiesRepeats: true,
  verifiesCopies: true,
  renewsToken: true,
  commitsHalves: true,
}

/** Ticks after an accepted commit in which an insert may start. */
export const startTicks = 40

/** Ticks for which a server works on an insert. */
export const runTicks = 40

/** Ticks for which Keeper knows a token at least; longer than an insert may be late. */
export const tokenTicks = 100
