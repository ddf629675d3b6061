import type { ComponentChildren, RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'

/** Returns the reference for an element; calls `onSeen` when the element is on the screen for the first time. */
export function useOnScreen(onSeen: () => void): RefObject<HTMLSpanElement> {
  const element = useRef<HTMLSpanElement>(null)
  useEffect(() => {
    if (element.current === null) return undefined
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some(({ isIntersecting }) => isIntersecting)) return
      observer.disconnect()
      onSeen()
    })
    observer.observe(element.current)
    return () => observer.disconnect()
  }, [])
  return element
}

/** Renders its children once it has been on the screen: what many rows would fetch is fetched only for those seen. */
export function InView({
  children,
  placeholder,
  class: name,
}: {
  children: () => ComponentChildren
  placeholder?: ComponentChildren
  class?: string
}) {
  const [isSeen, setSeen] = useState(false)
  const element = useOnScreen(() => setSeen(true))
  return (
    <span ref={element} class={name}>
      {isSeen ? children() : placeholder}
    </span>
  )
}
