import { messages } from '../messages/en.ts'
import { useView } from '../state/hooks.ts'
import { Button } from '../ui/button.tsx'

/** While the view has filters, explains why the page ignores them. */
export function UnusedFilters({ why }: { why: string }) {
  const { filters, setView } = useView()
  if (filters.length === 0) return null
  return (
    <div class="notice">
      <p class="grow">{why}</p>
      <Button
        kind="quiet"
        onClick={() => {
          setView({ filters: [] })
        }}
      >
        {messages.filters.clear}
      </Button>
    </div>
  )
}
