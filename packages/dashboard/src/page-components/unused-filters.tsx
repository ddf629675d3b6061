import { useView } from '../state/hooks.ts'
import { ClearFilters } from './clear-filters.tsx'

/** While the view has filters, explains why the page ignores them. */
export function UnusedFilters({ why }: { why: string }) {
  const { filters } = useView()
  if (filters.length === 0) return null
  return (
    <div class="notice">
      <p class="grow">{why}</p>
      <ClearFilters kind="quiet" />
    </div>
  )
}
