import { messages } from '../messages/en.ts'
import { clickOf, filtersAfterClick } from '../state/conditions.ts'
import { useView } from '../state/hooks.ts'
import { toast } from '../ui/announce.tsx'

/**
 * Returns a function that filters the view by a value of a property that was clicked: alone, with Alt excluded, with
 * Shift in addition to the others. Filters for which the page has no room are refused by a sentence.
 */
export function useFilterClick(): (property: string, value: string, event: MouseEvent) => void {
  const { filters, setView, hasRoom } = useView()
  return (property, value, event) => {
    const next = filtersAfterClick(filters, property, value, clickOf(event))
    if (hasRoom(next)) setView({ filters: next })
    else toast(messages.filters.tooLong, 'triangle-alert')
  }
}
