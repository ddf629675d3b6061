import type { ComponentChildren } from 'preact'
import { valueLabel } from '../format/sentences.ts'
import { messages } from '../messages/en.ts'
import { valuesOf } from '../state/conditions.ts'
import { useView } from '../state/hooks.ts'
import { useFilterClick } from './use-filter-click.ts'

export interface FilterValueProps {
  /** The name in conditions: `country`, `properties.plan`. */
  property: string
  value: string
  /** The text that is shown instead of the value. */
  children?: ComponentChildren
}

/**
 * A stored value as a button that filters the view by it: a click takes it alone, with Alt excludes it, with Shift adds
 * it; again takes it out.
 */
export function FilterValue({ property, value, children }: FilterValueProps) {
  const { filters } = useView()
  const filterBy = useFilterClick()
  const isChosen = filters.some((each) => each.property === property && valuesOf(each).includes(value))
  return (
    <button
      type="button"
      class="filter-value"
      aria-pressed={isChosen}
      title={messages.filters.clickHint}
      onClick={(event) => filterBy(property, value, event)}
    >
      {children ?? <bdi>{valueLabel(property, value)}</bdi>}
    </button>
  )
}
