import { eventColumns } from '@sluice/contracts/event-columns'

/** The columns of the table `events`, separated by commas. */
export const eventColumnNames = eventColumns.map(({ name }) => name).join(', ')

/** Structure of the external table that holds the rows of an insert (`EventRow`s): times are integers. */
export const eventTableStructure = eventColumns.map(({ name, externalType }) => `${name} ${externalType}`).join(', ')
