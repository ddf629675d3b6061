import type { AlertOperator } from '@sluice/contracts/alert-state'

/** Operators that compare with the window before, in percent. */
export const percentOperators: readonly AlertOperator[] = ['increases_by_percent', 'decreases_by_percent']
