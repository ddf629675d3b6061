/** What a unit logs while it waits until the writers have stored what was accepted. */
export const waitsForWriters = { waits: 'for the writers' } as const
