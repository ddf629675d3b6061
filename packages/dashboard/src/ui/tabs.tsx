import type { ComponentChildren } from 'preact'
import { useId, useState } from 'preact/hooks'

export interface Tab {
  id: string
  label: string
  content: () => ComponentChildren
}

/** Tabs with arrow keys. The chosen one is the caller's when `value` is given, else the tabs' own. */
export function Tabs({
  label,
  tabs,
  value,
  onChange,
}: {
  label: string
  tabs: readonly Tab[]
  value?: string
  onChange?: (id: string) => void
}) {
  const [own, setOwn] = useState(tabs[0]?.id)
  const base = useId()
  const chosen = value ?? own
  const choose = (at: number) => {
    const tab = tabs.at(at % tabs.length)
    if (tab === undefined) return
    setOwn(tab.id)
    onChange?.(tab.id)
    document.getElementById(`${base}-${tab.id}`)?.focus()
  }
  return (
    <div class="tabs">
      <div
        role="tablist"
        aria-label={label}
        onKeyDown={(event) => {
          const at = tabs.findIndex((tab) => tab.id === chosen)
          if (event.key === 'ArrowRight') choose(at + 1)
          else if (event.key === 'ArrowLeft') choose(at - 1)
        }}
      >
        {tabs.map((tab, at) => (
          <button
            key={tab.id}
            id={`${base}-${tab.id}`}
            type="button"
            role="tab"
            aria-selected={tab.id === chosen}
            aria-controls={`${base}-panel`}
            tabIndex={tab.id === chosen ? 0 : -1}
            onClick={() => choose(at)}
          >
            {tab.label}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${base}-panel`} aria-labelledby={`${base}-${chosen ?? ''}`}>
        {tabs.find((tab) => tab.id === chosen)?.content()}
      </div>
    </div>
  )
}
