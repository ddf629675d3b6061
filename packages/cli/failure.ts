/**
 * How the process ends (docs/command-line.md#exit-codes). `unread` is the code that shells report for a program that
 * SIGPIPE has ended; scripts know it from other programs before `head`.
 */
export const exitCodes = { ok: 0, failure: 1, usage: 2, authentication: 4, interrupted: 130, unread: 141 } as const

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

/** An error that ends a command. `message` is the one sentence that the user reads, and says what to do. */
export class Failure extends Error {
  readonly exitCode: ExitCode

  constructor(message: string, exitCode: ExitCode = exitCodes.failure) {
    super(message)
    this.name = 'Failure'
    this.exitCode = exitCode
  }
}

/** The failure of a call with wrong or missing arguments. */
export function usageFailure(message: string): Failure {
  return new Failure(message, exitCodes.usage)
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
