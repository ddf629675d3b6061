import { eventColumns } from '@sluice/contracts/event-columns'

/** Structure of the external table that holds the rows of an insert (`EventRow`s): times are integers. */
export const eventTableStructure = eventColumns.map(({ name, externalType }) => `${name} ${externalType}`).join(', ')
