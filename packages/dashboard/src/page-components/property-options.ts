import { eventFields, userFields, userPrefix } from '@sluice/contracts/conditions'
import type { ObservedProperty } from '@sluice/contracts/observed-properties'
import { formatCompact } from '../format/numbers.ts'
import { propertyLabel } from '../format/sentences.ts'
import { messages } from '../messages/en.ts'
import type { ComboboxOption } from '../ui/combobox.tsx'

/**
 * What a condition may name, as options: the properties of recent events with their counts, then the other fields of
 * events and the imported fields of users.
 */
export const propertyOptions = (observed: readonly ObservedProperty[]): ComboboxOption[] => [
  ...observed.map(({ name, count }) => ({ value: name, label: propertyLabel(name), detail: formatCompact(count) })),
  ...eventFields
    .filter((field) => observed.every(({ name }) => name !== field))
    .map((field) => ({ value: field, label: propertyLabel(field) })),
  ...userFields.map((field) => ({ value: `${userPrefix}${field}`, label: messages.filters.userField(field) })),
]
